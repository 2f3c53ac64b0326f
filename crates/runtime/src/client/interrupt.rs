//! Waits that something else than their deadline may end: a signal, for programs whose handlers cannot run inside them.

use std::cell::RefCell;
use std::time::Duration;

use crate::error::{Error, Result};

/// Asked in each turn of a wait: the longest sleep until it is asked again, or `None` to end the wait.
pub type Question = Box<dyn FnMut() -> Option<Duration>>;

thread_local! {
    static QUESTION: RefCell<Option<Question>> = const { RefCell::new(None) };
}

/// Calls `body`, in which waits of this thread for other nodes ask `question`. One that it ends fails with `EINTR`. It
/// leaves an endpoint of messages or a barrier in the middle of its work, if it had begun: it cannot be used again. A
/// lock can be: the wait takes its request back.
pub fn interruptible<T>(question: Question, body: impl FnOnce() -> T) -> T {
    struct Restore(Option<Question>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            QUESTION.with(|kept| *kept.borrow_mut() = before);
        }
    }
    let _restore = Restore(QUESTION.with(|kept| kept.borrow_mut().replace(question)));
    body()
}

/// The longest sleep of a wait that would sleep for `nap`.
///
/// # Errors
/// `EINTR`: the wait is to end.
pub(super) fn ask(nap: Duration) -> Result<Duration> {
    let answer = QUESTION.with(|kept| match kept.try_borrow_mut().as_deref_mut() {
        Ok(Some(question)) => question(),
        _ => Some(nap),
    });
    let most = answer.ok_or_else(|| Error::new(libc::EINTR, "the wait was interrupted"))?;
    Ok(nap.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(50);

    #[test]
    fn a_question_shortens_and_ends_waits_of_its_body_alone() {
        assert_eq!(ask(NAP).unwrap(), NAP);
        let mut left = 2u64;
        let question = Box::new(move || {
            left = left.checked_sub(1)?;
            Some(Duration::from_millis(left))
        });
        interruptible(question, || {
            assert_eq!(ask(NAP).unwrap(), Duration::from_millis(1));
            assert_eq!(ask(NAP).unwrap(), Duration::ZERO);
            assert_eq!(ask(NAP).unwrap_err().errno(), libc::EINTR);
        });
        assert_eq!(ask(NAP).unwrap(), NAP);
    }
}
