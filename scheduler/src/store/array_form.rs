//! Stores parts of records that occur in large numbers, each as the array of its fields.

/// Defines a struct that is written as the array of its fields, in their order. The derived reader
/// takes arrays.
macro_rules! stored_as_array {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        $vis struct $name { $($(#[$what])* pub(super) $field: $kind,)* }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ($(&self.$field,)*).serialize(serializer)
            }
        }
    };
}

pub(super) use stored_as_array;
