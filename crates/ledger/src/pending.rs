//! The answer to whoever waits for the writer: a thread may wait for it, a task may await it. No runtime is
//! needed for either, so the ledger works under any of them and under none.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{AppendError, LedgerError};
use crate::plan::Appended;

/// What a batch comes to.
pub type Outcome = Result<Vec<Appended>, AppendError>;

#[derive(Debug)]
struct Slot<T, E> {
    outcome: Option<Result<T, E>>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Shared<T, E> {
    slot: Mutex<Slot<T, E>>,
    answered: Condvar,
}

/// A batch, or something else to write, on its way. Dropping it does not take it back.
#[derive(Debug)]
#[must_use = "nothing is known to be written until the answer is there"]
pub struct Pending<T = Vec<Appended>, E = AppendError>(Arc<Shared<T, E>>);

impl<T, E> Pending<T, E> {
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

impl<T, E> Future for Pending<T, E> {
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

/// The writer's side: answers once, and says that the ledger was closed where it never came to it.
#[derive(Debug)]
pub(crate) struct Answer<T = Vec<Appended>, E = AppendError>(Option<Arc<Shared<T, E>>>)
where
    E: From<LedgerError>;

impl<T, E: From<LedgerError>> Answer<T, E> {
    pub(crate) fn pair() -> (Answer<T, E>, Pending<T, E>) {
        let slot = Mutex::new(Slot { outcome: None, waker: None });
        let shared = Arc::new(Shared { slot, answered: Condvar::new() });
        (Answer(Some(Arc::clone(&shared))), Pending(shared))
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

impl<T, E: From<LedgerError>> Drop for Answer<T, E> {
    fn drop(&mut self) {
        self.settle(Err(LedgerError::Closed.into()));
    }
}
