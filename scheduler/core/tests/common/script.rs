//! Scenarios as text.
//!
//! A line is `<ms> <action> -> <answers>`. Time passes until then, with every requested wake-up.
//! Then the action happens. All answers since the previous line follow, in order:
//!
//! | action | what happens |
//! |---|---|
//! | nothing | only time passes |
//! | `allow`, `reserve` or `wait`, then a name | a request with this id is asked. Options: `<unit>=<units>`, `class=<class>`, `client=<client>`, `from=<name>`, `user=<name>`, `within=<ms>`, `age=<ms>`, `progress`, `not=<account>`, `worth=<ms>` for what it is worth waiting for, `or=<label>:<value>,<unit>:<units>` for another way, with its `worth`, `<label>:<value>` |
//! | `unused`, `used` or `extend`, then a name | it is settled; `used` with a different actual cost by unit; each with `anew` and the options of the request, if the scheduler may not know the permit |
//! | `answered`, a name and a status | the same with the upstream's response; options: `after=<ms>` for the pause, `unit=<unit>`, `limit=<limit>` or `policy=<limit>` for the rejecting limit, `narrow` for one that only some calls share, `left=<tokens>` for the remaining amount, with its `steps=<tokens>`, `of=<tokens>` for the capacity, `reset=<ms>` and its `grain=<ms>` behind it, `others` if other accounts are to blame |
//! | `freeze`, then a limit and a time | an operator pauses it |
//! | `thaw` or `empty`, then a limit | an operator ends its pauses, or takes its stock; `thaw all` ends those of all limits |
//! | `held-up` | answers are delayed |
//! | `delivered` | all answers have arrived |
//! | `hand-over` | the scheduler gives the resource up |
//! | `undelivered`, then a name | the grant to the request of this name has reached no client; with `update`, an answer before it |
//! | `clock`, then milliseconds | corrects the wall time at the origin of time |
//! | `levels` | answers the levels of all limits |
//! | `left`, then a name | answers the remaining amounts in the limits of this permit |
//! | `why`, then a name | answers what delays this waiting request; `why next` asks about the next request of the default class |
//! | `limits`, then a name | switches to the limits of this name |
//! | `checkpoint` | a checkpoint is taken and stored |
//! | `restart` | a successor goes on from a snapshot. Options: `after=<ms>` for the time without a scheduler, `permits=<number>` for the most that are listed, `limits=<name>` for other limits, `crash` for a successor that leads alone and knows no permit |
//!
//! | answer | meaning |
//! |---|---|
//! | `a@300`, `a@300/x`, `a@300^1` | `a` may start at 300 ms; by the account `x`; in the first of the other ways |
//! | `a#2~300` | `a` is told that 2 requests are ahead of it and that it starts in 300 ms |
//! | `a:not_in_time+300` | `a` is refused with this code, and told to retry in 300 ms |
//! | `frozen+300`, `frozen=x+300` | starts within 300 ms are announced as void; of this key |
//! | `a:settled`, `a:extended` | the settle of `a` was accepted; the call is over, or goes on |
//! | `requests:stock+300` | this limit delays it for this reason, and could pay for it alone in 300 ms; `requests=x:stock` for a key |
//! | `~50` | the oldest call in flight will probably end in 50 ms |
//! | `requests=7.5` | the limit's level or remaining amount; `+300` if it is full in 300 ms |

use super::world::{BROADCAST, SETTLER, SentAnswer, Wish, World, wish};
use super::{amount, said};
use rampmeter_policy::Resource;
use rampmeter_policy::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_policy::spec::ResourceSpec;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::request::{Mode, Way};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use rampmeter_scheduler_core::event::{Event, Outcome};
use rampmeter_scheduler_core::scheduler::Scheduler;

/// The worlds in which a script is played.
pub(crate) trait Worlds {
    fn worlds(self) -> Vec<World>;
}

impl Worlds for World {
    fn worlds(self) -> Vec<World> {
        vec![self]
    }
}

impl Worlds for ResourceSpec {
    fn worlds(self) -> Vec<World> {
        vec![World::new(&self)]
    }
}

impl<const N: usize> Worlds for [ResourceSpec; N] {
    fn worlds(self) -> Vec<World> {
        self.iter().map(World::new).collect()
    }
}

/// Plays `script` in each of these worlds. It may switch to the limits of `sets` by name.
pub(crate) fn play_in(worlds: impl Worlds, sets: &[(&str, ResourceSpec)], script: &str) {
    worlds.worlds().into_iter().for_each(|world| drop(play_sets(world, sets, script)));
}

/// Plays `script` from the origin of time; every line must be answered as it says.
pub(crate) fn play(spec: &ResourceSpec, script: &str) -> World {
    play_on(World::new(spec), script)
}

/// Plays `script`, which may switch to the limits of `sets` by name.
pub(crate) fn play_under(spec: &ResourceSpec, sets: &[(&str, ResourceSpec)], script: &str) -> World {
    play_sets(World::new(spec), sets, script)
}

/// Plays `script` in a world that exists already.
pub(crate) fn play_on(world: World, script: &str) -> World {
    play_sets(world, &[], script)
}

fn play_sets(world: World, sets: &[(&str, ResourceSpec)], script: &str) -> World {
    let mut player = Player { world, sets, names: Vec::new(), answers_read: 0 };
    player.answers_read = player.world.answers.len();
    player.names = (0..player.world.asked).map(|request| format!("earlier-{request}")).collect();
    let lines = script.lines().map(normal).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut played, mut expected) = (Vec::new(), Vec::new());
    for line in lines {
        let (action, _) = line.split_once("->").expect("a line has an arrow");
        played.push(normal(&format!("{action} -> {}", player.play(action))));
        expected.push(line);
    }
    assert_eq!(played, expected, "\nplayed:\n{}\n", played.join("\n"));
    player.world
}

struct Player<'a> {
    world: World,
    sets: &'a [(&'a str, ResourceSpec)],
    /// Names by the number of the request.
    names: Vec<String>,
    /// The number of answers that earlier lines have listed.
    answers_read: usize,
}

impl Player<'_> {
    fn play(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = Time::ORIGIN + millis(words[0]);
        self.world.run_until(now);
        match words[1..] {
            [] => self.world.handle(now, Event::Wake),
            ["clock", shown] => {
                let wall_clock = WallClockOrigin::from_unix_nanos(millis(shown).nanos());
                self.world.handle(now, Event::WallClock(wall_clock));
            }
            ["levels"] => return self.levels(now),
            ["left", id] => return self.left(now, id),
            ["why", id] => return self.why(now, id),
            ["limits", set] => {
                let resource = self.resource(set);
                self.world.handle(now, Event::Limits(Box::new(resource)));
            }
            ["checkpoint"] => drop(self.world.checkpointed(now)),
            ["restart", ref options @ ..] => self.restart(now, options),
            ["thaw", limit] => {
                let limit = self.world.scheduler.resource().limit(limit);
                let paused = self.world.scheduler.paused(now, limit);
                self.world.handle(now, Event::Thaw(paused));
            }
            ["freeze", limit, time] => {
                let limits = vec![self.world.scheduler.resource().limit(limit).expect("a limit")];
                self.world.handle(now, Event::Freeze { limits, span: millis(time) });
            }
            ["empty", limit] => {
                let limit = self.world.scheduler.resource().limit(limit).expect("a limit");
                self.world.handle(now, Event::Empty(vec![limit]));
            }
            ["held-up"] => self.world.handle(now, Event::AnswersLate),
            ["delivered"] => self.world.handle(now, Event::Delivered),
            ["hand-over"] => self.world.handle(now, Event::HandOver),
            ["undelivered", id] => self.undelivered(now, id, true),
            ["undelivered", "update", id] => self.undelivered(now, id, false),
            ["unused", id] => return self.settle(now, id, Outcome::Unused),
            ["extend", id] => return self.settle(now, id, Outcome::Extend),
            ["extend", id, "anew", ref options @ ..] => return self.settle_call(now, id, Outcome::Extend, options),
            ["used", id, "anew", ref options @ ..] => {
                return self.settle_call(now, id, Outcome::Used(Vec::new()), options);
            }
            ["unused", id, "anew", ref options @ ..] => return self.settle_call(now, id, Outcome::Unused, options),
            ["used", id, ref cost @ ..] => return self.settle(now, id, Outcome::Used(actual(cost))),
            ["answered", id, status, ref options @ ..] => return self.be_answered(now, id, status, options),
            [mode, id, ref options @ ..] => self.ask(now, mode, id, options),
            [_] => panic!("no such action: {line}"),
        }
        self.answers("")
    }

    /// The limits of this name.
    fn resource(&self, set: &str) -> Resource {
        let (_, spec) = self.sets.iter().find(|(name, _)| *name == set).expect("a set of limits");
        Resource::new(spec).expect("valid limits")
    }

    fn restart(&mut self, now: Time, options: &[&str]) {
        let (mut start, mut permits, mut resource) = (now, usize::MAX, self.world.scheduler.resource().clone());
        let is_crash = options.contains(&"crash");
        for option in options {
            match option.split_once('=') {
                Some(("after", time)) => start = now + millis(time),
                Some(("permits", most)) => permits = most.parse().unwrap(),
                Some(("limits", set)) => resource = self.resource(set),
                _ => assert_eq!(*option, "crash"),
            }
        }
        let snapshot = self.world.scheduler.snapshot(now, if is_crash { 0 } else { permits });
        let epoch = self.world.scheduler.epoch().next();
        self.world.scheduler = Scheduler::restore(resource, epoch, start, now, &snapshot);
        if is_crash {
            self.world.scheduler.lead_alone();
        }
    }

    fn ask(&mut self, now: Time, mode: &str, id: &str, options: &[&str]) {
        self.names.push(id.to_owned());
        let mut asked = wish(mode_of(mode), &[]).named(id);
        options.iter().for_each(|option| read_option(&mut asked, option));
        self.world.ask(now, &asked);
    }

    fn undelivered(&mut self, now: Time, id: &str, is_grant: bool) {
        self.world.handle(now, Event::Undelivered { id: PermitId::new(id).unwrap(), is_grant });
    }

    fn settle_call(&mut self, now: Time, id: &str, outcome: Outcome, options: &[&str]) -> String {
        let mut asked = wish(Mode::Wait, &[]);
        options.iter().for_each(|option| read_option(&mut asked, option));
        let bill = self.world.bill(&asked).expect("what is in flight was granted");
        self.world.settle_call(now, id, outcome, bill);
        self.answers(id)
    }

    fn settle(&mut self, now: Time, id: &str, outcome: Outcome) -> String {
        self.world.settle(now, id, outcome);
        self.answers(id)
    }

    fn be_answered(&mut self, now: Time, id: &str, status: &str, options: &[&str]) -> String {
        self.world.settle_answered(now, id, observed(status, options));
        self.answers(id)
    }

    /// The answers since the previous call; `settled` is the id of the current settle.
    fn answers(&mut self, settled: &str) -> String {
        let news = &self.world.answers[self.answers_read..];
        let text = |(at, to, answer): &(Time, usize, SentAnswer)| {
            let name = match *to {
                SETTLER => settled,
                BROADCAST => "",
                to => &self.names[to],
            };
            let account = self.world.accounts.get(to).filter(|_| matches!(answer, SentAnswer::Granted(_)));
            let way = self.world.chosen_ways.get(to).map_or(String::new(), |way| format!("^{way}"));
            text_of(name, *at, answer) + &account.map_or(String::new(), |account| format!("/{account}")) + &way
        };
        let texts = news.iter().map(text).collect::<Vec<_>>().join(" ");
        self.answers_read = self.world.answers.len();
        texts
    }

    fn left(&mut self, now: Time, id: &str) -> String {
        let before = self.answers("");
        let left = self.world.scheduler.left(now, &PermitId::new(id).unwrap());
        std::iter::once(before).chain(left.iter().map(left_of)).collect::<Vec<_>>().join(" ")
    }

    fn why(&mut self, now: Time, id: &str) -> String {
        let before = self.answers("");
        let scheduler = &mut self.world.scheduler;
        let delay = if id == "next" {
            scheduler.delay_of_next(now).map(|(limit, reason, held_by)| {
                reason_of(Some(&scheduler.resource()[limit].spec().name), reason, held_by.as_ref())
            })
        } else {
            let question = Question { id: Some(PermitId::new(id).unwrap()), ..Question::default() };
            let request = scheduler.explain(now, &question).ok().and_then(|explanation| explanation.request);
            request.and_then(|one| Some(reason_of(one.limited_by.as_ref(), one.reason?, one.held_by.as_ref())))
        };
        normal(&format!("{before} {}", delay.unwrap_or_else(|| "nothing".to_owned())))
    }

    fn levels(&mut self, now: Time) -> String {
        let before = self.answers("");
        let status = self.world.scheduler.limit_status(now);
        let levels = status.iter().map(|limit| format!("{}={}", limit.name, limit.level));
        std::iter::once(before).chain(levels).collect::<Vec<_>>().join(" ")
    }
}

fn reason_of(limit: Option<&Name>, reason: Reason, held_by: Option<&Holder>) -> String {
    let (mut key, mut pays, mut likely) = (String::new(), String::new(), String::new());
    if let Some(holder) = held_by {
        key = holder.key.as_ref().map_or(key, |key| format!("={key}"));
        pays = holder.pays_in_ms.map_or(pays, |pays| format!("+{pays}"));
        likely = holder.likely_free_ms.map_or(likely, |likely| format!(" ~{likely}"));
    }
    format!("{}{key}:{}{pays}{likely}", limit.map_or("", |limit| limit), reason.as_str())
}

fn left_of(left: &Left<'_>) -> String {
    let reset = left.reset_ms.map(|reset| format!("+{reset}"));
    format!("{}={}{}", &*left.limit, left.remaining, reset.unwrap_or_default())
}

fn read_option<'a>(wish: &mut Wish<'a>, option: &'a str) {
    match option.split_once('=') {
        None if option == "progress" => wish.progress = true,
        None if option.contains(':') => wish.labels.extend(option.split_once(':')),
        Some(("class", class)) => wish.class = Some(class),
        Some(("from", from)) => wish.from = Some(from),
        Some(("user", user)) => wish.user = user,
        Some(("client", client)) => wish.client = Some(client),
        Some(("not", account)) => wish.not.push(Name::new(account).unwrap()),
        Some(("within", most)) => wish.max_wait = Some(millis(most)),
        Some(("worth", most)) if wish.ways.is_empty() => wish.worth = millis(most),
        Some(("worth", most)) => wish.ways.last_mut().unwrap().else_after_ms = Millis::from(millis(most)),
        Some(("or", way)) => wish.ways.push(way_of(way)),
        Some(("age", age)) => wish.age = millis(age),
        Some((unit, units)) => wish.cost.push((unit, units.parse().unwrap())),
        None => panic!("no such option: {option}"),
    }
}

/// Reads labels and units of another way: `model:small,requests:2`, where numbers are units.
fn way_of(text: &str) -> Way<'static> {
    let mut way = Way::default();
    for (name, value) in text.split(',').filter_map(|part| part.split_once(':')) {
        match value.parse() {
            Ok(units) => way.cost.set(name.to_owned(), amount(units)).unwrap(),
            Err(_) => way.labels.set(name.to_owned(), value.to_owned()).unwrap(),
        }
    }
    way
}

fn observed(status: &str, options: &[&str]) -> Observation {
    let mut observation = said(Verdict::Passed);
    let (mut scope, mut after, mut others) = (Scope::Unnamed, None, false);
    for option in options {
        match option.split_once('=') {
            Some(("after", wait)) => after = Some(millis(wait)),
            Some(("unit", unit)) => scope = Scope::Unit(unit.to_owned()),
            Some(("limit", limit)) => scope = Scope::Limit(limit.to_owned()),
            Some(("policy", limit)) => scope = Scope::Policy(limit.to_owned()),
            None if *option == "narrow" => scope = Scope::Narrow,
            Some(("left", left)) => observation.readings.push(Reading {
                reset_grain: Span::ZERO,
                ..Reading::new(scope.clone(), amount(left.parse().unwrap()))
            }),
            Some(("of", capacity)) => last_reading(&mut observation).capacity = Some(amount(capacity.parse().unwrap())),
            Some(("reset", reset)) => last_reading(&mut observation).reset = Some(millis(reset)),
            Some(("grain", grain)) => last_reading(&mut observation).reset_grain = millis(grain),
            Some(("steps", units)) => {
                last_reading(&mut observation).remaining_grain = amount(units.parse().unwrap());
            }
            None if *option == "others" => others = true,
            Some(_) | None => panic!("no such option: {option}"),
        }
    }
    observation.verdict = match status {
        "429" => Verdict::Limited { scope, retry_after: after, by_other_accounts: others },
        "403" => Verdict::Exhausted { scope, reset: after },
        _ => Verdict::Passed,
    };
    observation
}

fn last_reading(observation: &mut Observation) -> &mut Reading {
    observation.readings.last_mut().expect("this option is behind `left`")
}

fn mode_of(mode: &str) -> Mode {
    match mode {
        "allow" => Mode::Allow,
        "reserve" => Mode::Reserve,
        "wait" => Mode::Wait,
        other => panic!("no such mode: {other}"),
    }
}

fn actual(cost: &[&str]) -> Vec<(String, rampmeter_protocol::amount::Amount)> {
    let read = |item: &&str| {
        let (unit, units) = item.split_once('=').expect("a cost is <unit>=<units>");
        (unit.to_owned(), amount(units.parse().unwrap()))
    };
    cost.iter().map(read).collect()
}

fn text_of(name: &str, at: Time, answer: &SentAnswer) -> String {
    match answer {
        SentAnswer::Granted(delay) => format!("{name}@{}", (at + *delay).since(Time::ORIGIN).millis()),
        SentAnswer::Queued(ahead, eta) => format!("{name}#{ahead}~{}", eta.millis()),
        SentAnswer::Settled => format!("{name}:settled"),
        SentAnswer::Extended => format!("{name}:extended"),
        SentAnswer::Frozen(buckets, span) => {
            let keys = buckets.iter().filter_map(|(_, key)| Some(format!("={}", key.as_ref()?)));
            format!("frozen{}+{}", keys.collect::<String>(), span.millis())
        }
        SentAnswer::Refused(refusal) => {
            let retry = refusal.retry_after().map_or(String::new(), |after| format!("+{}", after.millis()));
            format!("{name}:{}{retry}", refusal.code().as_str())
        }
    }
}

/// Milliseconds with up to six decimals.
fn millis(text: &str) -> Span {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanos: u64 = format!("{fraction:0<6}").parse().unwrap();
    Span::from_nanos(whole.parse::<u64>().unwrap() * 1_000_000 + nanos)
}

fn normal(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
