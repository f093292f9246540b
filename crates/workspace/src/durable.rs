//! Making several files durable at once. A file system commits all waiting files together, so that ten parallel syncs take about as
//! long as one.

use std::thread;

/// How many are synced in parallel.
const MAX_AT_ONCE: usize = 8;

/// Syncs each of these. If this returns without an error, all of them are durable.
///
/// # Errors
/// One that could not be synced; the others were tried.
pub fn sync_together<T: Sync, E: Send>(
    items: &[T],
    sync: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let sync_part = |part: &[T]| part.iter().try_for_each(&sync);
    thread::scope(|scope| {
        let mut outcome = Ok(());
        let mut others = Vec::new();
        for part in items.chunks(items.len().div_ceil(MAX_AT_ONCE).max(1)) {
            match thread::Builder::new().spawn_scoped(scope, || sync_part(part)) {
                Ok(other) => others.push(other),
                // Without another thread it only takes longer.
                Err(_) => outcome = outcome.and(sync_part(part)),
            }
        }
        for other in others {
            match other.join() {
                Ok(synced) => outcome = outcome.and(synced),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_is_synced_once_and_a_failure_is_reported() {
        for count in [0, 1, 7, 8, 9, 63] {
            let items: Vec<usize> = (0..count).collect();
            let synced = Mutex::new(Vec::new());
            let sync = |item: &usize| {
                synced.lock().unwrap().push(*item);
                Ok::<_, ()>(())
            };
            assert_eq!(sync_together(&items, sync), Ok(()));
            let synced = synced.into_inner().unwrap();
            assert_eq!((synced.len(), synced.iter().copied().collect::<BTreeSet<_>>().len()), (count, count));
            let last = |item: &usize| if item + 1 == count { Err(*item) } else { Ok(()) };
            assert_eq!(sync_together(&items, last), count.checked_sub(1).map_or(Ok(()), Err));
        }
    }
}
