//! Small numbers that stand for classes, limits, headrooms and clients.

/// The index of a class in its resource, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// Returns the class with this index.
    #[must_use]
    pub fn of_index(index: usize) -> Self {
        ClassId(u8::try_from(index).expect("a resource has at most 16 classes"))
    }

    /// Returns the index into [`Resource::classes`](crate::Resource::classes).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of a limit in its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(pub u8);

impl LimitId {
    /// Returns the index into [`Resource::limits`](crate::Resource::limits).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of an account in its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u8);

impl AccountId {
    /// Returns the index into [`ResourceSpec::accounts`](crate::spec::ResourceSpec::accounts).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The headroom that a start leaves: an index into the resource's headrooms, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier(u8);

impl Tier {
    /// The tier of starts that leave no headroom.
    pub const NO_HEADROOM: Tier = Tier(0);

    /// Returns the tier with this index.
    #[must_use]
    pub fn of_index(index: usize) -> Self {
        Tier(u8::try_from(index).expect("a resource has at most one tier more than classes"))
    }

    /// Returns the index into the resource's distinct headrooms.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a client whose use is counted; zero for unknown ones and those beyond the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNumber(pub u16);
