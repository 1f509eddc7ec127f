//! How a terminal shows what matters: in colours, or without.

use super::sheet::Tone;
use ratatui::style::{Color, Modifier, Style};

/// The styles of a terminal. Without colours, weight and inversion tell the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(super) const PLAIN: Palette = Palette { is_coloured: false };
    pub(super) const COLOURED: Palette = Palette { is_coloured: true };

    /// Colours, unless `NO_COLOR` is set (<https://no-color.org>).
    pub(super) fn of_environment() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_unwanted { Palette::PLAIN } else { Palette::COLOURED }
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let (colour, weight) = match tone {
            Tone::Plain => (Color::Reset, Modifier::empty()),
            Tone::Good => (Color::Green, Modifier::empty()),
            Tone::Warning => (Color::Yellow, Modifier::BOLD),
            Tone::Bad => (Color::Red, Modifier::BOLD),
            Tone::Quiet => (Color::Reset, Modifier::DIM),
        };
        let style = Style::new().add_modifier(weight);
        if self.is_coloured && colour != Color::Reset { style.fg(colour) } else { style }
    }

    /// The head of a panel; the panel that keys act on stands out.
    pub(super) fn head(self, has_focus: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        match (has_focus, self.is_coloured) {
            (true, true) => style.fg(Color::Cyan),
            (true, false) => style.add_modifier(Modifier::REVERSED),
            (false, _) => style,
        }
    }

    /// The row that keys act on.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
