//! The parts of borrowed memory by themselves: outstanding requests, combining buffers, DMA engine, links.

mod combining;
mod dma;
mod orq;
mod wire;
