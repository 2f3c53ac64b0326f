//! The parts of borrowed memory by themselves: address map, outstanding requests, combining buffers, DMA
//! engine, links.

mod combining;
mod dma;
mod map;
mod orq;
mod wire;
