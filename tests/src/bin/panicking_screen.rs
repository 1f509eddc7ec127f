//! A program with a picture on the terminal, and a bug.

use rampmeter_scheduler::commands::top::screen::Screen;

fn main() -> anyhow::Result<()> {
    let mut screen = Screen::open()?;
    screen.paint(|_| ())?;
    panic!("a bug on purpose");
}
