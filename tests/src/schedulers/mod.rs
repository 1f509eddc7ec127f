//! Schedulers and proxies, in this process or in their own.

pub mod front;
pub mod http_proxy;
pub mod pair;
pub mod portal;
pub mod process;
pub mod proxy_process;
pub mod rules;
pub mod scheduler;
pub mod shipped;
pub mod wrong_clock;
