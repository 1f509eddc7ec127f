//! Commands and what people read.

mod closed_pipes;
mod command_line;
mod config;
mod doctor;
mod forecasts;
mod governor;
mod logs;
mod presets;
mod processing_units;
mod purge;
mod quick_start;
mod readable;
mod simulate;
mod state;
mod status;
mod usage;
