//! What happens while the store does not answer.

use super::keys::value;
use super::limits::table::{OnKvLoss, ResourceTable};
use super::reading::source::{ConfigError, Source};
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::spec::OnStoreLoss;

/// The default of `ride_for`: longer than an election of the store's leader, and than a server's
/// restart.
const DEFAULT_RIDE: Span = Span::from_secs(30);

/// `on_kv_loss` and `ride_for`.
pub(super) fn on_store_loss(source: &Source, table: &ResourceTable) -> Result<OnStoreLoss, ConfigError> {
    match (table.on_kv_loss.unwrap_or(OnKvLoss::Hold), &table.ride_for) {
        (OnKvLoss::Ride, ride_for) => Ok(OnStoreLoss::Ride(ride_for.as_ref().map_or(DEFAULT_RIDE, value))),
        (OnKvLoss::Hold, None) => Ok(OnStoreLoss::Hold),
        (OnKvLoss::Hold, Some(ride_for)) => {
            Err(source.fault(&ride_for.span(), "`ride_for` is for `on_kv_loss = \"ride\"`"))
        }
    }
}
