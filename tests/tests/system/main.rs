//! The system from the outside: real programs on real servers.

mod bad_input;
mod closed_pipes;
mod cluster;
mod command_line;
mod config;
mod counting;
mod dialects;
mod differing;
mod embedded_nats;
mod examples;
mod fair_queue;
mod feedback;
mod fleet;
mod floods;
mod fuzz;
mod gone_clients;
mod governor;
mod http;
mod http_check;
mod http_door;
mod http_front;
mod http_gateways;
mod http_nginx;
mod jobs;
mod jobs_cli;
mod jobs_faults;
mod jobs_permissions;
mod keys;
mod leases;
mod logs;
mod nats_configuration;
mod nats_restart;
mod permissions;
mod permit_ids;
mod processing_units;
mod protocol;
mod provider;
mod provider_limits;
mod purge_cli;
mod python;
mod quick_start;
mod readable;
mod reqwest_middleware;
mod restart;
mod sdk;
mod secrets;
mod silence;
mod simulate;
mod spread;
mod starting;
mod state_cli;
mod status_cli;
mod store_loss;
mod store_rollback;
mod store_writes;
mod tower_client;
mod tower_server;
mod uncounted;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
/// A worker that runs jobs.
const JOBS_WORKER: &str = env!("CARGO_BIN_EXE_jobs-worker");
/// A worker that takes a permit and keeps it.
const PERMIT_HOLDER: &str = env!("CARGO_BIN_EXE_permit-holder");
