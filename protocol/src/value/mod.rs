//! The values that messages consist of, checked while they are read.

pub mod amount;
pub mod cost;
pub mod epoch;
pub mod id;
pub mod labels;
pub mod millis;
pub mod name;
pub mod object;
pub mod plain_types;
pub mod price;
pub mod text;
