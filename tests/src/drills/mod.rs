//! Fire drills: load, bad networks, the judge, and waits without luck.

pub mod drill;
pub mod figures;
pub mod fire;
pub mod job_run;
pub mod judge;
pub mod load;
pub mod machine;
pub mod proxy;
pub mod relay;
