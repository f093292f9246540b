//! The answer of the writer: a thread may wait for it, a task may await it. Neither needs a runtime, so the ledger works
//! under any async runtime and without one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{AppendError, LedgerError};
use crate::plan::AppendedEntry;

/// The answer to a batch.
pub type AppendResult = Result<Vec<AppendedEntry>, AppendError>;

#[derive(Debug)]
struct AnswerSlot<T, E> {
    outcome: Option<Result<T, E>>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct SharedAnswer<T, E> {
    slot: Mutex<AnswerSlot<T, E>>,
    answered: Condvar,
}

/// The answer to a write. Dropping it does not cancel the write.
#[derive(Debug)]
#[must_use = "nothing is known to be written until the answer is there"]
pub struct PendingAnswer<T = Vec<AppendedEntry>, E = AppendError>(Arc<SharedAnswer<T, E>>);

impl<T, E> PendingAnswer<T, E> {
    /// Waits for the answer on this thread.
    pub fn wait(self) -> Result<T, E> {
        let mut slot = self.0.slot.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = slot.outcome.take() {
                return outcome;
            }
            slot = self.0.answered.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T, E> Future for PendingAnswer<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The writer's side: answers once; if it is dropped before that, the answer is that the ledger was closed.
#[derive(Debug)]
pub(crate) struct AnswerSender<T = Vec<AppendedEntry>, E = AppendError>(Option<Arc<SharedAnswer<T, E>>>)
where
    E: From<LedgerError>;

impl<T, E: From<LedgerError>> AnswerSender<T, E> {
    pub(crate) fn pair() -> (AnswerSender<T, E>, PendingAnswer<T, E>) {
        let slot = Mutex::new(AnswerSlot { outcome: None, waker: None });
        let shared = Arc::new(SharedAnswer { slot, answered: Condvar::new() });
        (AnswerSender(Some(Arc::clone(&shared))), PendingAnswer(shared))
    }

    pub(crate) fn give(mut self, outcome: Result<T, E>) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Result<T, E>) {
        let Some(shared) = self.0.take() else { return };
        let waker = {
            let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        shared.answered.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T, E: From<LedgerError>> Drop for AnswerSender<T, E> {
    fn drop(&mut self) {
        self.settle(Err(LedgerError::Closed.into()));
    }
}
