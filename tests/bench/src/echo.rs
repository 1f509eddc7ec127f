//! The bare echo: the cost of NATS and the client library alone.

use anyhow::Context;
use futures::StreamExt;
use rampmeter_config::NatsTable;
use rampmeter_serve::connection::connect;
use rampmeter_serve::denials::Denials;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// The subject of the echo.
pub(crate) const SUBJECT: &str = "rampmeter-bench-echo";

/// Starts the echo on a thread of its own. Returns once it is subscribed. It ends when the result is
/// dropped.
///
/// # Errors
/// If it cannot subscribe.
pub(crate) async fn start(url: &str) -> anyhow::Result<oneshot::Sender<()>> {
    let ((ready, is_ready), (stop, stopped)) = (oneshot::channel(), oneshot::channel());
    let (url, runtime) = (url.to_owned(), Builder::new_current_thread().enable_all().build()?);
    let echo = async move {
        tokio::select! {
            ended = respond(&url, ready) => ended,
            _ = stopped => Ok(()),
        }
    };
    std::thread::spawn(move || runtime.block_on(echo));
    is_ready.await.context("the echo has ended")?;
    Ok(stop)
}

/// Answers in a loop as tight as the scheduler's.
async fn respond(url: &str, ready: oneshot::Sender<()>) -> anyhow::Result<()> {
    let client = connect(&Denials::default(), &NatsTable::at(url), "echo").await?;
    let mut requests = client.subscribe(SUBJECT).await?;
    client.flush().await?;
    ready.send(()).ok();
    while let Some(request) = requests.next().await {
        if let Some(reply) = request.reply {
            client.publish(reply, request.payload).await?;
        }
    }
    Ok(())
}
