//! A small pool of connections: created when needed, kept when idle, never more than a limit.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::LedgerError;

#[derive(Debug)]
struct PoolState<C> {
    idle: Vec<C>,
    in_use: usize,
}

/// Connections of one use.
#[derive(Debug)]
pub(crate) struct Pool<C> {
    most: usize,
    state: Mutex<PoolState<C>>,
    returned: Condvar,
}

impl<C> Pool<C> {
    /// At most so many at a time.
    pub(crate) fn of(most: usize) -> Self {
        let state = Mutex::new(PoolState { idle: Vec::new(), in_use: 0 });
        Pool { most: most.max(1), state, returned: Condvar::new() }
    }

    /// Takes an idle connection, or `None` with the permission to create one. Waits while all are in use.
    fn take(&self, wait_ms: u64, busy: impl FnOnce() -> LedgerError) -> Result<Option<C>, LedgerError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = Duration::from_millis(wait_ms);
        let waited = self.returned.wait_timeout_while(state, wait, |state| state.in_use >= self.most);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() && state.in_use >= self.most {
            return Err(busy());
        }
        state.in_use += 1;
        Ok(state.idle.pop())
    }

    fn give_back(&self, connection: Option<C>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use -= 1;
        state.idle.extend(connection);
        drop(state);
        self.returned.notify_one();
    }

    /// Runs `work` with a connection. One that failed is closed, not kept.
    pub(crate) fn with<T>(
        &self,
        wait_ms: u64,
        busy: impl FnOnce() -> LedgerError,
        connect: impl FnOnce() -> Result<C, LedgerError>,
        work: impl FnOnce(&mut C) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut taken = PooledConnection { pool: self, connection: self.take(wait_ms, busy)? };
        let connection = match &mut taken.connection {
            Some(connection) => connection,
            empty => empty.insert(connect()?),
        };
        let done = work(connection);
        if done.is_err() {
            taken.connection = None;
        }
        done
    }
}

struct PooledConnection<'a, C> {
    pool: &'a Pool<C>,
    connection: Option<C>,
}

impl<C> Drop for PooledConnection<'_, C> {
    fn drop(&mut self) {
        self.pool.give_back(self.connection.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> LedgerError {
        LedgerError::Busy { place: "p".to_owned(), wait_ms: 0 }
    }

    #[test]
    fn connections_are_kept_and_never_more_than_the_bound() {
        let pool: Pool<u32> = Pool::of(2);
        let with = |number: u32, work: &dyn Fn(u32) -> Result<u32, LedgerError>| {
            pool.with(0, busy, || Ok(number), |connection| work(*connection))
        };
        assert_eq!(with(1, &|taken| Ok(taken)), Ok(1));
        assert_eq!(with(2, &|taken| Ok(taken)), Ok(1), "the one that is idle");
        let within = with(3, &|first| {
            let second = with(4, &|second| {
                assert_eq!(with(5, &|_| Ok(0)), Err(busy()), "both are in use");
                Ok(second)
            })?;
            Ok(first * 10 + second)
        });
        assert_eq!(within, Ok(14));
        assert_eq!(with(6, &|taken| Ok(taken)), Ok(1), "both came back");
    }

    #[test]
    fn a_connection_that_failed_is_not_used_again() {
        let pool: Pool<u32> = Pool::of(1);
        let with = |number: u32, result: Result<(), LedgerError>| {
            pool.with(0, busy, || Ok(number), |connection| result.map(|()| *connection))
        };
        assert_eq!(with(1, Err(busy())), Err(busy()));
        assert_eq!(with(2, Ok(())), Ok(2));
        let refused = pool.with(0, busy, || Err(busy()), |connection| Ok(*connection));
        assert_eq!(refused, Ok(2), "there is one already");
    }
}
