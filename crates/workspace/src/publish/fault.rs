//! The moments at which a publish can be interrupted, each with a name. In the product they do nothing; the tests of
//! this crate stop the process there, or let someone else change a file.

#[cfg(not(test))]
#[inline(always)]
pub(super) fn point(_name: &'static str) {}

#[cfg(test)]
pub(super) use under_test::point;

#[cfg(test)]
pub(crate) mod under_test {
    //! What happens at a point while a test runs.

    use std::cell::RefCell;

    type Hook = Box<dyn FnMut(&'static str)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    pub(in super::super) fn point(name: &'static str) {
        // The hook is taken out while it runs, so that it may use the workspace itself.
        let hook = HOOK.with(|cell| cell.borrow_mut().take());
        if let Some(mut hook) = hook {
            hook(name);
            HOOK.with(|cell| *cell.borrow_mut() = Some(hook));
        }
    }

    /// Runs something with a hook at every point of this thread.
    pub(crate) fn with_hook<T>(hook: impl FnMut(&'static str) + 'static, run: impl FnOnce() -> T) -> T {
        HOOK.with(|cell| *cell.borrow_mut() = Some(Box::new(hook)));
        let result = run();
        HOOK.with(|cell| cell.borrow_mut().take());
        result
    }
}
