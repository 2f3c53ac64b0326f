/// Values that are named by small numbers while they travel; a number is used again after
/// [`Slab::take`].
#[derive(Clone, Debug)]
pub struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value; its number.
    #[inline]
    pub fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.values[index as usize] = Some(value);
                index
            }
            None => {
                self.values.push(Some(value));
                self.values.len() as u32 - 1
            }
        }
    }

    /// The value with this number.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, index: u32) -> &T {
        self.values[index as usize].as_ref().expect("a number that is in use")
    }

    /// The value with this number, to be changed.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut T {
        self.values[index as usize].as_mut().expect("a number that is in use")
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    /// Gives the value up.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn take(&mut self, index: u32) -> T {
        self.free.push(index);
        self.values[index as usize].take().expect("a number that is in use")
    }

    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
