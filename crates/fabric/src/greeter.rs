//! A [greeting] driven by the bytes of a connection: each end takes a step when something has come, and what it has to
//! send is staged, also with an error. Nothing here waits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::credentials::Credentials;
use crate::greeting::{self, Callee, Caller, GreetingError, Unproved};
use crate::{Buffer, Seal};

type Step<T> = Result<Option<(T, Seal)>, GreetingError>;

/// The end that has connected, until it has the answer.
#[derive(Debug)]
pub struct Calling(Option<Caller>);

impl Calling {
    /// A handshake with a node, whose hello is staged.
    ///
    /// # Panics
    /// There are keys, and none for this node.
    pub fn new(
        credentials: &Credentials,
        node: u16,
        hello: &impl Serialize,
        out: &mut Vec<u8>,
    ) -> Calling {
        let (caller, first) = Caller::new(credentials, node, hello);
        out.extend(first);
        Calling(Some(caller))
    }

    /// The callee's answer and the keys, once it is whole.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn step<W>(&mut self, input: &mut Buffer, out: &mut Vec<u8>) -> Step<W>
    where
        W: for<'a> Deserialize<'a>,
    {
        // One that has failed before gets no further.
        let caller = self.0.take().ok_or(GreetingError::NoDaemon)?;
        match caller.answered(input.bytes())? {
            Ok(met) => {
                input.take(met.taken);
                out.extend(met.confirm);
                Ok(Some((met.welcome, met.seal)))
            }
            Err(caller) => {
                self.0 = Some(caller);
                Ok(None)
            }
        }
    }
}

/// The end that was called, until its peer has proved itself.
#[derive(Debug)]
pub struct Called<H>(Stage<H>);

#[derive(Debug)]
enum Stage<H> {
    Waiting(Callee),
    Proving(Unproved, H),
    Over,
}

impl<H: Clone + for<'a> Deserialize<'a>> Called<H> {
    /// A handshake that waits for a hello.
    pub fn new(credentials: &Arc<Credentials>) -> Called<H> {
        Called(Stage::Waiting(Callee::new(credentials)))
    }

    /// Whether no hello was heard.
    pub fn is_waiting(&self) -> bool {
        matches!(self.0, Stage::Waiting(_))
    }

    /// The hello of a peer that has proved itself, and the keys. `judge` answers a hello, of the node whose key the
    /// peer has, with a welcome or the reason of a refusal.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn step<W: Serialize>(
        &mut self,
        input: &mut Buffer,
        out: &mut Vec<u8>,
        judge: impl FnOnce(&H, Option<u16>) -> Result<W, String>,
    ) -> Step<H> {
        let (unproved, hello) = match std::mem::replace(&mut self.0, Stage::Over) {
            // It has failed before.
            Stage::Over => return Err(GreetingError::NoDaemon),
            Stage::Proving(unproved, hello) => (unproved, hello),
            Stage::Waiting(callee) => {
                let kind = callee.kind();
                let heard = callee.hear::<H>(input.bytes()).inspect_err(|error| {
                    out.extend(greeting::refusal(error, kind).unwrap_or_default());
                });
                let asked = match heard? {
                    Ok(asked) => asked,
                    Err(callee) => {
                        self.0 = Stage::Waiting(callee);
                        return Ok(None);
                    }
                };
                input.take(asked.taken);
                let (hello, answer) = (asked.hello.clone(), judge(&asked.hello, asked.node));
                let refused = answer.as_ref().err().cloned();
                let (bytes, unproved) = asked.answer(answer);
                out.extend(bytes);
                if let Some(why) = refused {
                    return Err(GreetingError::Refused(why));
                }
                (unproved, hello)
            }
        };
        match unproved.prove(input.bytes())? {
            Ok((seal, taken)) => {
                input.take(taken);
                Ok(Some((hello, seal)))
            }
            Err(unproved) => {
                self.0 = Stage::Proving(unproved, hello);
                Ok(None)
            }
        }
    }
}
