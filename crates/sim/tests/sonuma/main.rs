//! The RMC of Scale-Out NUMA: its parts against references, two of them against an oracle, and its
//! time against sums.

mod fake;
mod maq;
mod mmu;

mod oracle;
mod rack;
mod random;
mod timing;
