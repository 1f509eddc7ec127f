//! The values in messages, checked while they are parsed.

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
