//! Stores parts of records that occur in large numbers, each as the array of its fields.

/// Implements `Serialize` as the array of these fields. The derived reader takes arrays.
macro_rules! stored_as_array {
    ($name:ident: $($field:ident),+) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ($(&self.$field,)+).serialize(serializer)
            }
        }
    };
}

pub(crate) use stored_as_array;
