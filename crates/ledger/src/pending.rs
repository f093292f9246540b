//! The answer to a batch that waits for the writer: a thread may wait for it, a task may await it. No runtime is
//! needed for either, so the ledger works under any of them and under none.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{AppendError, LedgerError};
use crate::plan::Appended;

/// What a batch comes to.
pub type Outcome = Result<Vec<Appended>, AppendError>;

#[derive(Debug, Default)]
struct Slot {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    answered: Condvar,
}

/// A batch on its way. Dropping it does not take the batch back.
#[derive(Debug)]
#[must_use = "the batch is not known to be written until the answer is there"]
pub struct Pending(Arc<Shared>);

impl Pending {
    /// Waits for the answer on this thread.
    pub fn wait(self) -> Outcome {
        let mut slot = self.0.slot.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = slot.outcome.take() {
                return outcome;
            }
            slot = self.0.answered.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
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
pub(crate) struct Answer(Option<Arc<Shared>>);

impl Answer {
    pub(crate) fn pair() -> (Answer, Pending) {
        let shared = Arc::new(Shared::default());
        (Answer(Some(Arc::clone(&shared))), Pending(shared))
    }

    pub(crate) fn give(mut self, outcome: Outcome) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
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

impl Drop for Answer {
    fn drop(&mut self) {
        self.settle(Err(LedgerError::Closed.into()));
    }
}
