//! Queues of delayed jobs.

mod batches;
mod commands;
mod concurrency;
mod faults;
mod init;
mod permissions_of_jobs;
mod queue;
