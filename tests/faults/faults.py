"""The faults that plant.py plants, by the part of the tree that holds them."""

from dataclasses import dataclass

import bounds
import pools


@dataclass(frozen=True)
class Tests:
    """The tests of a package's library, or of a file of its tests, whose name has `only` in it."""

    package: str
    target: str
    only: str = ""


@dataclass(frozen=True, eq=False)
class Part:
    """A folder with faults, and the tests that have to fail for each: what fails most comes first."""

    folder: str
    tests: tuple
    faults: list
    # Tests that wait for servers are not run for two faults at once.
    waits: bool = False


@dataclass(frozen=True, eq=False)
class Fault:
    """The one place in a function that a regular expression matches, and what is planted there."""

    part: Part
    number: int
    name: str
    function: str
    pattern: str
    planted: str


# name, function, the one place in it (a regular expression), what is planted there
IN_CORE = [
    ("a bill outlives its last permit", "charge_anew", r"drop\(before\);(?=\s*return)", ""),
    ("a user fills the queue with new clients", "parties", r"user\.map\(Party::User\)", "user.filter(|_| false).map(Party::User)"),
    ("a window of a second asks for a pause of a minute", "blamed", r"blamed\.retain\(\|limit\| may_ask\(\*limit\)\);", ""),
    ("a limit that alone was to blame is forgotten", "sample", r"measured\.is_convicted \|= blamed\.len\(\) == 1;", ""),
    ("a ceiling outlives the change of the limit that was meant", "recast", r"same\.forget_ceiling\(now\);", ""),
    ("one client fills a queue", "times_free", r"=> 1\b", "=> usize::MAX"),
    ("a settle does not correct the use", "use_up", r"self\.meter\.correct\(.*\);", ""),
    ("a call that was given back counts as use", "uncharge", r"self\.meter\.take_out\(.*\);", ""),
    ("a successor corrects the use of another client", "restore_permit", r"\.of_client\(client\.unwrap_or_default\(\)\)", ""),
    ("a change of limits forgets the use", "change_limits", r"self\.former = self\.take\(former\);", "drop(self.take(former));"),
    ("any number of clients has a row", "next_index", r"self\.names\.len\(\) < MAX_NAMES", "true"),
    ("people who look make keys forgotten", "advance", r"for far in &mut self\.far \{", "self.forget_unused(now); for far in &mut self.far {"),
    ("a window ends more than a period after an answer", "learn_phase", r"ends\.until\.min\(.*?\)\), ", "ends.until, "),
    ("a promise close to the end of a window counts once", "end_of_call", r"at < last", "true"),
    ("an operator's pause is the upstream's", "freeze_by_order", r"Freeze::ordered\(now \+ span\)", "Freeze::new(now, now + span, None)"),
    ("an operator's pause voids nothing", "freeze_by_order", r"voids \|= ", "let _ = "),
    ("the cause of a pause dies with its leader", "restore_freeze", r"if snapshot\.ordered", "if false"),
    ("the earlier of two pauses counts", "join", r"added\.until > freeze\.until", "added.until < freeze.until"),
    ("a client that got nothing is the last", "client_shares", r"count\.granted > 0 \|\| \*waiting == 0", "false"),
    ("no start is ahead of its turn", "of_grant", r"u64::from\(is_promoted\)", "0"),
    ("a rejected call tells how long calls take", "settle_used", r"served\.then_some\(&actual\)", "Some(&actual)"),
    ("a spent quota feeds workers", "fed_by", r"Some\(0\.0\)", "None"),
    ("a quota sets the pace of workers", "fed_by", r"written\.is_quota\(\)", "false"),
    ("a call that was given back is in flight", "uncharge", r"self\.calls\.withdraw\(.*\);", ""),
    ("our own debts have no cause", "count_rejection", r"Amount::ZERO\)\)", "Amount::ZERO) && false)"),
    ("a limit that is too high is blamed on strangers", "evidence_and_share", r"=> Evidence::Lower", "=> Evidence::Varying"),
    ("strangers are a limit that is too high", "evidence_and_share", r"=> Evidence::Varying", "=> Evidence::Lower"),
    ("bursts are blamed on strangers", "evidence_and_share", r"=> Evidence::Whole", "=> Evidence::Varying"),
    ("a limit that is too high is held to nothing", "count_rejection", r"learned\.hold\(now, allowed\)", "drop(learned)"),
    ("a key learns nothing from rejections", "learn_rejection", r"self\.ledger\.keys\.begin_to_adapt\(now, charge\)", "drop(charge)"),
    ("a key that is held is forgotten", "forget_if_idle", r" \|\| is_adapted", ""),
    ("all keys learn", "begin_to_adapt", r"self\.adaptive\.len\(\) < MAX_ADAPTIVE", "true"),
    ("the loss of most of a rate is given back soon", "lose_rate", r"\.nanos\(\) \* REPEATED", ".nanos()"),
    ("a ceiling is never raised", "review", r"ceiling\.raise_at <= now", "false"),
    ("a ceiling that fails is raised as soon", "lowered", r"before\.wait\.nanos\(\) \* 2", "before.wait.nanos()"),
    ("any of two limits is too high", "sample", r"likeliest\.max\(", "likeliest.min("),
    ("any number of buckets is measured", "sample", r"self\.measured\.len\(\) < MAX_MEASURED_BUCKETS \|\| ", "true || "),
    ("a sign", "spend", r"(self\.set_level\(.* )- ", r"\1+ "),
    ("a missing cap", "level_now", r"\((.*)\)\.min\(self\.full_at\(.*\)\)$", r"\1"),
    ("a refund without room", "correct", r"\((.*)\)\.min\(self\.room_since\(.*\)\)", r"\1"),
    ("one bucket is enough", "search", r"== all\b", ">= 1"),
    ("a class outside the subject's is granted", "class_of", r"\*stated != \*\*permitted", "false"),
    ("the subject's class is ignored", "class_of", r"permitted\.map\(.*\)\.or\(stated\)", "stated"),
    ("later promises are not looked at", "start_in_gap", r"self\.check_later_starts\(.*\)\?;", ""),
    ("a lost queue entry", "join", r"Some\(self\.balance\(outermost, subtrees\)\)", "{ let _ = outermost; subtrees[1 - side] }"),
    ("an order makes a tree deep", "balance", r"is_heavy\(\*side\)", "is_heavy(*side) && false"),
    ("idle clients save credit", "next_slice", r"\.end\.max\(clock\)", ".end"),
    ("small accounts forget strangers", "longest_recovery", r"\.max\(least\)\.min\(most\)", ".min(least)"),
    ("clocks stand still", "advance", r"self\.\w+ = .*\.max\(tag\);", "let _ = tag;"),
    ("free service is counted", "serve", r"contended == LimitSet::NONE", "false"),
    ("limits without waiting requests give credit", "clock_for", r"set\.and\(.*?\)", "set"),
    ("clocks pass waiting requests", "enter", r"(first\.map\(.*\)), service", r"\1.filter(|_| false), service"),
    ("the less urgent first", "dispatch", r"\.map\(ClassId::of_index\)", ".rev().map(ClassId::of_index)"),
    ("no late binding", "blocking", r"> latest\b", "== Time::NEVER"),
    ("a start that waits for the store is due at once", "hold_start", r"(?<=due = )offer\.at", "start.at"),
    ("holds are kept", "withdraw_holds", r"holds\.for_each\(.*\);", "let _ = (now, holds);"),
    ("no class is ever promoted", "starving", r"<= self\.now\b", "< Time::ORIGIN"),
    ("any service of its class helps a starving request", "last_served", r"\.chain\(of_some\)\.min\(\)", ".chain(of_some).min().max(self.served.iter().copied().max())"),
    ("a repeated id is charged again", "ask", r"self\.permits\.find\(&ask\.id\)", "None"),
    ("an id in use serves another request", "is_anothers", r"in_use && ", "!in_use && "),
    ("starts are reserved without a bound", "ask", r"\.unwrap_or\(ahead\)\.min\(ahead\)", ".unwrap_or(ahead.max(FARTHEST_START))"),
    ("strangers take places in flight", "may_be_of_predecessor", r"is_some_and\(.*\)", "is_some_and(|lease| now <= Time::NEVER - lease)"),
    ("a checkpoint without its budget", "level_snapshots", r"(level\(granted\.from\)) - granted\.credit", r"\1"),
    ("promises are not pending debits", "debits", r"self\.outstanding_after\(.*?\) \+ ", ""),
    ("budgets are not pending debits", "debits", r" \+ unknown\b", ""),
    ("pending debits are handed out", "full_at", r" - .*\bpending_debits\.at\(.*\)$", ""),
    ("a checkpoint covers starts for ever", "covers", r"start <= self\.until && ", ""),
    ("grants beyond the checkpoint", "covers", r"&& (?=self\.open\.iter\(\)\.all)", "|| "),
    ("the checkpoint that the store holds is forgotten", "confirm", r">= number\b", "> number"),
    ("the checkpoint that the standbys hold is forgotten", "witness", r">= number\b", "> number"),
    ("doubts are ignored", "doubt", r"self\.trusted_from = .*;", ""),
    ("a lapsed start is repeated", "answer_repeated", r"\S+ \+ LATENESS < now", "false"),
    ("a settled id is granted again", "answer_repeated", r"!granted\.is_open\(\)", "false"),
    ("a wrong unit undoes a settle", "settle_used", r"= (self\.resource\.check_units\(.*\));", r"= Ok(\1?);"),
    ("one client's word is enough for hours", "believe", r"None => UNCONFIRMED,", "None => reported,"),
    ("any call decides on a longer pause", "believe", r"freeze\.is_probed_by\(key\)", "freeze.until > now"),
    ("a user confirms itself", "believe", r"if before\.by == user", "if before.by != user"),
    ("a user confirms more than was said", "believe", r"before\.until\.since\(now\)", "reported"),
    ("an answer speaks of any limit", "limits_in", r"charged\(&\|limit\| limit == named\)", "std::iter::once(named).collect()"),
    ("an unknown name is a shared limit's", "limits_in", r"\(None, Scope::Limit\(_\)\) => charged\(&is_narrow\)", "(None, Scope::Limit(_)) => charged(&|_| true)"),
    ("a reading of an unknown name fits any capacity", "limit_read", r"!is_unknown \|\| ", "true || "),
    ("a refusal blames caps", "suspects", r"has_others && limit\.counts_calls_in_flight\(\)", "has_others && limit.counts_calls_in_flight() && false"),
    ("every suspect is blamed", "narrowest", r"!is_wider\(limit\)", "!is_wider(limit) || true"),
    ("a used-up shared limit is not blamed", "blamed", r"may_ask\(\*limit\) && ", "false && "),
    ("a short limit asks for a long pause", "blamed", r"named <= .*$", "named <= Span::from_nanos(u64::MAX) || resource[limit].is_keyed());"),
    ("blame never widens", "blamed", r"next\.contains\(limit\) && ", "false && "),
    ("blame widens to a limit that serves", "blamed", r"ledger\.adaptive\(limit\)\.served <= since", "since.max(ledger.adaptive(limit).served) >= since"),
    ("a predicted refusal widens the blame", "failed_since", r" && !was_predicted", " && (!was_predicted || true)"),
    ("a pause never doubles", "next_pause", r"last \+ last", "last"),
    ("a late 429 doubles a pause", "next_pause", r"freeze\.is_probed_by\(key\)", "key.at <= Time::NEVER"),
    ("a lower capacity cuts off stock twice", "learn_capacity", r"-surplus\.unwrap_or_default\(\)\.max\(Credit::ZERO\)", "surplus.filter(|_| false).unwrap_or_default()"),
    ("a capacity is certain at once", "is_certain", r" \+ CERTAIN <= now", " <= now"),
    ("an answer without a capacity confirms", "observe", r"self\.ledger\.adaptive_mut\(limit\)\.note_announced\(call\.now, None\)", "_ = limit"),
    ("a spent quota comes back with the probe", "reset_of_spent", r"\.max\(Some\(until\)\)", ".filter(|_| false).max(Some(until))"),
    ("a wait for the store is a wait for stock", "refuse_late", r"deadline\.max\(now\)", "deadline"),
    ("every limit is a quota", "exhausted", r"of\(Limit::is_quota\)", "of(|_| true)"),
    ("another store empties quotas", "distrust_stock", r"!limit\.has_long_period\(\)", "true"),
    ("returned permits fill the memory", "busy", r" - self\.idle\.len\(\)", ""),
    ("returned ids have no bound", "push_idle", r"self\.idle\.len\(\) > MAX_IDLE_PERMITS", "false"),
    ("a list of starts ends behind a returned one", "unlist", r"\.swap_remove\(", ".truncate("),
    ("waiting requests stay stopped after a delay", "delivered", r"self\.ledger\.note_change\(\)", "()"),
    ("capacity of delayed answers goes to the queue", "dispatch", r"self\.answers_are_late(?= \{)", "false"),
    ("one bucket for all keys", "find", r"(?s)let is_it = \|slot\| self\.get\(slot\)(.*?) && .*find\(key, is_it\)", r"self.buckets.nth_slot(0).filter(|slot| self.get(*slot)\1 && !key.is_empty()))"),
    ("a request for two keys moves between their queues for ever", "move_to_class_queue", r"\w+\.kept_for = Some\((.*)\);", r"let _ = (\1);"),
    ("a key's reserved part stops all other requests", "earliest_of_key", r"\bbucket\b.*\.commit\(.*;", "let _ = (&mut bucket, start, kept, its_tier);\n            return Time::NEVER;"),
    ("changes of keys are not noted", "update", r"self\.note_change\(slot\);", ""),
    ("a changed bucket changes no plan", "take_change", r"std::mem::take\(.*\)", "{ self.changed = false; false }"),
    ("limit sets have no bound", "tree_for", r"\S+ < MAX_SETS", "true"),
    ("an unused turn is lost", "leave", r"client\.take_back\(slice\)", "{}"),
    ("a spent quota refuses all requests in one event", "refuse_without_quota", r"\s+&& self\.plan\.take_step\(\)", ""),
    ("all requests start in one event", "serve_class", r"!self\.plan\.take_step\(\)", "false"),
    ("the rest of a plan waits for the next event", "dispatch", r"self\.plan\.has_steps\(\)", "true"),
    ("a request gets one update in time", "send_updates", r"Some\(now \+ UPDATE_INTERVAL\)", "None"),
    ("buckets of keys are forgotten before they are full", "is_unused", r" && self\.level_now\(.*\) >= .*", ""),
    ("promises that are given back stay listed", "unlist", r"self\.due\.remove\(&\(at, slot\)\)", "self.due.contains(&(at, slot))"),
    ("former freezes of a key stay listed", "unlist", r"self\.frozen\.remove\(&\(until, slot\)\)", "self.frozen.contains(&(until, slot))"),
    ("what is left of another limit drains a token bucket", "compare_level", r"written\.has_tokens\(\) && !is_of_it", "false"),
    ("a start ahead tells no buckets", "answer", r"if delay > self\.resource\.spec\(\)\.horizon", "if delay > Span::from_nanos(u64::MAX)"),
    ("a call of a key that is counted anew is a promise", "renew", r"self\.advance\(limit, now\);", ""),
    ("a late answer shortens the time of a spent quota", "mark_spent_until", r"self\.quota_spent_until\.max\(until\)", "until"),
    ("a call made early keeps its start", "use_up", r"granted\.start\.at\.min\(now\)", "granted.start.at"),
    ("an answered call counts for its jitter, too", "correct", r"made == CallMade::Answered(?=\s+&& self)", "false"),
    ("a call ahead is answered in a shadow window", "sooner_end", r"key\.at <= now && ", ""),
    ("a call without an answer does not count for its jitter", "settle_used", r"observation\.is_some\(\)", "true"),
    ("places that come back count as needed", "charge", r"self\.least = self\.least\.min\(self\.left\);", "self.least -= cost;"),
    ("a place of a key comes back to no checkpoint", "release", r"let returns = \|limit\| unused \|\| places\.has\(limit\);", "let returns = |limit| unused && places.has(limit);"),
    ("a successor refunds no call in flight", "from_record", r"!record\.rooms\.is_empty\(\)", "record.rooms.len() > usize::MAX - 1"),
    ("another route charges all waiting requests anew", "change_limits", r"only_widens\(&self\.resource, &resource\)", "false"),
    ("promises of keys are never spent", "advance", r"known\.update\(&self\.limits, \|bucket, limit\| bucket\.advance\(limit, now\)\);", ""),
    ("newcomers pass a key queue", "blocking_key", r"(?s)(\w+)\.is_some_and\(\|\1\| .*?\)\)(?=\s*\|\|)", r"({ let _ = \1; false })"),
    ("key queues never open again", "examine_key", r"return self\.queues\.keys\.set_alarm\(.*;", "return;"),
    ("a limit that goes on begins anew", "change", r"Some\(\w+\) => .*\.recast\(now, limit\)", "Some(_) => AdaptiveLimit::new(limit, resource.spec().start, now)"),
    ("checkpoints of former limits allow more", "after", r"after\.doubt\(\);", "after.trusted_from = before.trusted_from;"),
    ("permits keep the places of former limits", "change_limits", r"self\.permits\.change\(.*\);", ""),
    ("keys keep the places of former limits", "change", r"known\.limit = to;", ""),
    ("a waiting request is charged by former limits", "charge_anew", r"from_bill\(&before, former\)", "from_bill(&before, &self.resource)"),
    ("keys that nothing waits for are looked at when something waits", "handle", r" \|\| !self\.ledger\.keys\.changed\.is_empty\(\)", ""),
    ("a faster limit pays unknown promises early", "recast", r"filter\(\|_\| to\.is_keyed\(\)\)", "filter(|_| false)"),
    ("a successor with a faster limit pays promises early", "key_bucket_of", r"\*was != limit\.rate\(\)", "false"),
    ("keys are recorded without the rates of their limits", "keys_snapshot", r"self\.key_rates\(\)", "Vec::new()"),
    ("keys of former queues are never forgotten", "empty_queues", r"self\.ledger\.keys\.note_change\(key\)", "drop(key)"),
    ("clients keep the service of former limits", "empty", r"\*self = ClassQueue::new\(resource, now\)", "*self = ClassQueue { clients: self.clients.clone(), ..ClassQueue::new(resource, now) }"),
    ("a successor knows the end of a window too exactly", "earliest", r" - self\.earlier", ""),
    ("a promise counts late for a successor", "begin_earlier", r"\(block\.from - earlier\)", "block.from"),
    ("starts up to the very end of windows", "starts_in", r"\.ends - guard", ".ends"),
    ("a call after the reset spends the quota before it", "reset_of_spent", r"level_without\(limit, now, held\)", "level(limit, now)"),
    ("what is held for a waiting request is spent", "level_without", r"(self\.level_until\(.*\)) \+ held\b", r"{ let _ = held; \1 }"),
    ("the limit that moves a start last blocks others, whether it has room or not", "blocking", r"(self\.ledger\..*\.or_else\(any\))\.or\(offer\.limited_by\)", r"offer.limited_by.or_else(|| \1)"),
    ("a promise under a longer window ends at its start", "commit_paid", r"self\.add_usage\(.*\);", ""),
    ("returned permits come first in a snapshot", "first_permits", r"(?<=State::Returned => Some\(\()false, StartKey \{.*\}", "true, StartKey::LAST"),
    ("settled permits push open ones off a snapshot", "first_permits", r"granted\.is_open\(\)", "true"),
    ("a lost update takes back a grant", "undelivered", r"if is_grant && ", "if "),
    ("freezes without room are forgotten", "freeze_snapshots", r"(\.nth\(keyed\.len\(\)\))", r"\1.filter(|_| false)"),
    ("settles free inherited places while a predecessor may hear them", "frees_inherited", r"self\.leads_alone \|\| .*", "now >= Time::ORIGIN"),
    ("the inherited place that ends last is freed first", "end_inherited", r"places\.iter_mut\(\)", "places.iter_mut().rev()"),
    ("a settle after a crash frees a promised place", "named_places", r"places\.iter\(\)\.all\(.*?\) \{", "true {"),
    ("a call that was counted twice frees one place", "end_twice_counted", r"granted\.stage == Stage::Inherited", "false"),
    ("a refused checkpoint is repeated as large as it was", "refuse", r"self\.record_bytes /= 2;", ""),
    ("the rest of a window is wasted", "backfill", r"self\.start_or_hold\(.*\);", "let _ = (slot, until, Span::ZERO, StartReason::Backfilled);"),
    ("a request that fits later in a window is not told", "start_or_hold", r"\w+\.at <= latest(?= =>)", "latest < offer.at || latest == Time::NEVER"),
    ("a request that was passed has not starved", "ends_starvation", r"self\.reason != StartReason::Backfilled", "true"),
    ("all old requests of a key are promoted", "note_start", r"turns\.served = .*;", "let _ = served;"),
    ("the busiest client goes first at a key", "serve", r"client\.next = begin\.after\(service\);", "let _ = service;"),
    ("the keys of two requests wait for each other", "kept_before", r"\bgoes_on = .*;", "goes_on = { let _ = (permit, holds_key); false };"),
    ("a later request takes what a promoted one waits for", "promoted_behind", r"!self\.queues\.is_any_behind\(class\)", "true"),
    ("an age has no bound", "join_queue", r"\.max\(self\.term\.earliest_arrival\(now\)\)", ""),
    ("an age moves a client ahead of others", "arrival_position", r"at: self\.came", "at: self.arrival.at"),
    ("a key without a budget holds its class", "blocking_key", r"\s*\|\| self\.lacks_budget\(charge\)", ""),
    ("a first call of a key waits like a far start", "due_after", r"earliest\.min\(.*\)(?=,$)", "earliest"),
    ("a request for a spent quota stands aside", "take_turn", r"(?s)if self\.turn_away_if_spent\(.*?\}", ""),
    ("shadow limits see nothing", "commit", r"self\.shadow_limits\.note_granted\(.*\);", "let _ = (start, limit, latest);"),
    ("a request that waits for its key holds the queue", "take_turn", r"if !self\.wait_for_key\(.*\) ", ""),
    ("reservations pass a key queue", "offer_behind_queue", r"(\w+)\.waiting\(\) > 0", r"!\1.has_no_turns()"),
    ("a successor's keys are full", "restore_keys", r"\(None, Some\(\w+\)\) => Bucket::empty_until\(.*,$", "(None, Some(_)) => continue,"),
    ("far promises on keys are not listed", "fenced_keys", r"(far_debts\(now, are_listed\)\.take)\(.*?\)", r"\1(0)"),
    ("keys outside the checkpoint fill before near starts are past", "fenced_keys", r"(map_or\()now \+ NEAR\b", r"\1now"),
    ("keys in checkpoints need no budget", "cover", r"(?<=\.covers\()resource\.credit\(.*?\)", "Credit::ZERO"),
    ("budgets of keys are not spent", "charge", r"(?<=\.charge\()resource\.credit\(charge\..*?\)", "Credit::ZERO"),
    ("a checkpoint without the budgets of its keys", "key_record", r" - budget - late\b", " - late"),
    ("a checkpoint without its keys' share of windows", "key_record", r"credit: budget\b", "credit: Credit::ZERO"),
    ("a checkpoint without the budgets of unlisted keys", "fenced_keys", r"(has_budget\(limit\)\.map\()\|budgets\| budgets\.of_unlisted\(limit\)", r"\1|_| Credit::ZERO"),
    ("keys fill before they are used", "key_record", r" - budget - late\b", " - budget"),
    ("keys in use have no place in checkpoints", "enlist", r"self\.in_use\.insert\(.*\);", ""),
    ("grants of keys on pages are forgotten", "restore_page", r"spent\[.*?\]\)", "Credit::ZERO)"),
    ("a far start is told before the store knows", "reserve", r"self\.promise\(", "self.grant("),
    ("promises outside the list refill", "outstanding_after", r"\+ unlisted$", "+ (unlisted, Credit::ZERO).1"),
    ("costs are learned backwards", "learn", r"self\.above_one \+=", "self.above_one -="),
    ("unknown calls in flight take no room", "count_anew", r"self\.ledger\.renew\(.*\bkey\b.*;", "let _ = key;"),
    ("unknown calls in flight give room under checkpoints without them", "count_anew", r"self\.term\.budget\.charge\(.*(&bill), now\);", r"self.term.budget.release(&self.resource, key, \1, rampmeter_policy::LimitSet::ALL, crate::limits::CallMade::Yes);"),
    ("headroom is told as stock", "obstacle_in", r"pays\(Tier::NO_HEADROOM\) => Some\(Reason::Headroom\)", "pays(Tier::NO_HEADROOM) => Some(Reason::Stock)"),
    ("a pause is told as stock", "obstacle_in", r"Some\(Reason::Frozen\)", "Some(Reason::Stock)"),
    ("a client that had its share is told of stock", "obstacle", r"is_passed\(core, \w+\)", "false"),
    ("a pause delays no estimate", "paid_after", r"bucket\.freeze\(\)\.map_or\(paid, .*\)$", "paid"),
    ("the time of calls in flight is not learned", "correct", r"self\.adaptive_mut\(limit\)\.note_call_time\(.*;", "let _ = key;"),
    ("a call that goes on is said to be settled", "settle", r"outcome == Outcome::Extend && ", "false && "),
    ("a window that ended before the origin of time ends at it", "nearest_to", r"\.min\(until\)", ""),
    ("one client moves a window as often as it likes", "take_report", r" && now >= self\.moved \+ self\.period", ""),
    ("two answers in a row move windows", "take_report", r"reports >= CONSISTENT", "reports >= 2"),
    ("calls start where either window may count them", "starts_in", r" - self\.slack\(\)", ""),
    ("own starts after the answer count as those of others", "own_at", r" - reports\.started_after\(at\)", ""),
    ("an answer of the last window corrects the next", "present_until", r"window\.contains\(reading\.at\) && ", ""),
    ("what an answer says of others stays", "new", r"Some\(expires\)\.filter\(.*\)", "None.or(Some(expires).filter(|_| false))"),
    ("no probe follows when what one client said expires", "expire", r"self\.freeze = .*;", ""),
    ("starts of the last window count in the next", "cut_anew", r"(?<=recent = )reports\.started_since\(.*\)", "reports.started_since(Time::ORIGIN)"),
    ("starts are forgotten when a window moves", "cut_anew", r"(?<=recent = )reports\.started_since\(.*\)", "Credit::ZERO"),
    ("nothing is held back of a window for others", "held_back", r"others\.of\(window\)", "others.of(window).min(Credit::ZERO)"),
    ("own starts on their way count as those of others", "learn_usage_of_others", r"limit, now, now\)", "limit, now, reading.at)"),
    ("a higher rest is believed at once", "claim_after", r"surplus\.min\(refill\.divided_by\(RAISE_PART\)\)", "surplus.min(refill.max(surplus))"),
    ("an answer that tells much less renews what others use", "claim_after", r"read\.credit\.times\(2\) >= claim\.credit", "true"),
    ("what calls on their way leave is a surplus", "learn_level", r" - ON_THE_WAY", ""),
    ("a refused call takes what it asks for", "compare_level", r"observation\.verdict == Verdict::Passed", "true"),
    ("more than written is followed", "below_written", r"\(capacity < spec\.capacity\)", "(capacity != spec.capacity)"),
    ("less than the floor is followed", "below_written", r"\.max\(floor\.max\(1\)\)", ".max(floor.min(1))"),
    ("a successor forgets when windows end", "restored", r"UpstreamReports::new\(now, phase\)", "UpstreamReports::new(now, phase.filter(|_| false))"),
    ("deadlines are forgotten", "add", r"insert_due\(&mut self\.deadlines.*;", ""),
    ("a steered limit begins with all of its capacity", "new", r"let Learn::Steered\(first\) = limit\.spec\(\)\.learn", "let (Learn::Steered(first), true) = (limit.spec().learn, false)"),
    ("a named refusal blames steered limits", "suspects", r"scope\.may_be_unnamed\(\)", "true"),
    ("readings are of steered limits", "limit_read", r" && !limit\.spec\(\)\.is_steered\(\)", ""),
    ("a crowded call is charged", "observe", r"Verdict::Crowded => Some\(call\.bill\.keyed_part\(\)\)", "Verdict::Crowded => None"),
]
IN_POLICY = [
    ("a client's own cap is its share", "dominant_share", r"!is_own\(id\)", "true"),
    ("rounding in favour of the caller", "refilled_at", r"\((\w+\.0) - 1\) (/ .*) \+ 1", r"\1 \2"),
    ("headroom ignored", "demand", r"\(cost \+ .*\)(?=\.min)", "cost"),
    ("the margin forgotten", "new", r" - rate\.credit\(margin\)", ""),
    ("weights ignored", "weight", r"\.copied\(\)\.unwrap_or\(Weight::ONE\)", ".map_or(Weight::ONE, |_| Weight::ONE)"),
    ("jitter is not held back of token buckets", "new", r"auto_margin\(spec\.capacity, spec\.period, spec\.jitter\)", "auto_margin(spec.capacity, spec.period, LATENESS)"),
    ("clocks that differ count for nothing", "new", r"guard\(LATENESS\)", "guard(Span::ZERO)"),
    ("keys of calls in flight start full after a crash", "lists_keys", r"self\.counts_calls_in_flight\(\) \|\| ", ""),
    ("a label of discovered limits is named twice", "faults", r"faults\.extend\(broken\(SpecField::Resource, key_rules.*\);", ""),
    ("an answered call counts for less than a period", "counts_until_if_answered", r"answered \+ self\.spec\.period", "answered + Span::from_nanos(self.spec.period.nanos() / 10 * 9)"),
    ("an answered call counts for the former period", "counts_longer_as", r"\.max\(period\)", ".max(period.min(Span::ZERO))"),
    ("a sliding window forgets a tenth early", "new", r"(?<=length: )period \+ jitter\b", "Span::from_nanos(period.nanos() / 10 * 9)"),
    ("calls in flight are over a tenth early", "new", r"(?<=length: )period(?=, until_settled)", "Span::from_nanos(period.nanos() / 10 * 9)"),
    ("the first of a group applies", "new", r"\w+\.sort_by_key\(\|candidate\| Reverse.*;", ""),
    ("the default cost is free where no limit counts it", "check_default_cost", r"self\.counts\(REQUESTS\)", "true"),
    ("what is rounded down counts as used by others", "remaining_range", r"self\.remaining\.saturating_add\(coarse\)", "self.remaining"),
    ("what is rounded up counts as left", "remaining_range", r"self\.remaining_grain\)(?=\.\.=)", "Amount::ONE)"),
    ("new limits begin full", "levels_of_new", r"\.min\(limit\.full\(\)\)", ".max(limit.full())"),
    ("a steered limit refuses large costs", "check_payable", r" \|\| self\[limit\]\.spec\(\)\.is_steered\(\)", ""),
]
IN_DISCOVERY = [
    ("no limit is discovered by headers", "take_reading", r"self\.add\(DiscoveredLimit::new\(.*\);", "drop((spec, left));"),
    ("a limit that one client makes up stays", "is_doubtful", r"self\.denials >= DENIALS", "false"),
    ("a limit that no answer repeats stays", "is_doubtful", r" \|\| is_unrepeated", ""),
    ("any number of limits is discovered", "take_reading", r"by_headers < MAX_DISCOVERED", "by_headers < usize::MAX"),
    ("a refusal that headers explain lowers the rate", "refused_by", r"\.any\(is_used_up\)", ".any(|_| false)"),
    ("a refusal with a time is a cap in flight", "refused_by", r"retry_after: None, \.\.", ".."),
    ("a discovered limit begins full", "take_event", r"limit\.left\.take\(\)\?", "limit.left.take().filter(|_| false)?"),
    ("a steered capacity stays", "steer", r"!= Some\(limit\.in_force\)", "== None"),
    ("what was discovered dies with its scheduler", "snapshot", r"self\.discovered\.iter\(\)", "self.discovered.iter().filter(|_| false)"),
    ("limits change beside events that number them", "handle", r"if may_change \{", "if true {"),
    ("a hand-over changes limits", "handle", r"!self\.is_over\n", "true\n"),
    ("a long pause teaches for longer", "note_refused", r"pause\.min\(LONGEST_PAUSE\)", "pause"),
    ("a quiet minute teaches a rate", "note_refused", r" && is_used", " && (is_used || true)"),
    ("a successor tells old limits as news", "begin", r"discovery\.news\.retain\(.*\);", ""),
    ("rules in a hand-over forget discovered limits", "handle", r"self\.written = \*written;\s*event = self\.take_event\(\);", "if self.is_over { event = Event::Limits(written); } else { self.written = *written; event = self.take_event(); }"),
    ("places are never to blame", "learn", r"answer\.verdict = Verdict::Crowded", "let _ = Verdict::Crowded"),
]
IN_JOBS = [
    ("the last job first", "next_job", r"get_first_raw_message_by_subject\((.*?), from\)", r"get_last_raw_message_by_subject(\1)"),
    ("a job that has ended stays", "finish", r"self\.store\(\)\.finish\((\w+)\)\.await;", r"let _ = \1;"),
    ("attempts are not written down", "attempt", r"self\.note\(.*;", ""),
    ("a dead letter is thrown away", "give_up", r"self\.hold\.during\(.*add_dead_letter.*\bheaders\b.*;", "drop(headers);"),
    ("attempts have no end", "is_spent", r">= self\.max_attempts", "> u32::MAX - 1"),
    ("a 429 ends the job", "attempt", r"\w+\.is_throttled\(\)", r"\g<0> && number == 0"),
    ("one job by two ids", "publish", r"message\.message_id\(&self\.id\)", "message"),
    ("a job that arrives at a closing lane is not seen", "receive", r"(?<=Some\(_\) => )drop\(store\.put_lane_lease\(.*\bsequence\b.*(?=,$)", "store.forget(sequence).await"),
    ("a queue of another party is taken", "unless_different", r"differences\.is_empty\(\)", "differences.len() < usize::MAX"),
    ("a job that was put back comes at once", "receipt", r"(?<=Receipt::Sleep\(Duration::from_millis\()([\w.]+\.after_ms)", r"\1.min(1)"),
    ("a job that waits loses its place", "has_room", r" \+ self\.waiting\.len\(\)", ""),
    ("a job too many runs", "has_room", r"< self\.most", "<= self.most"),
    ("other jobs that wait come with the first", "shortened", r"self\.after_ms\.saturating_sub\(by_ms\)", "0 * by_ms"),
    ("a lane with a free place sleeps on", "lane_lease", r"Some\(MAX_SLEEP_MS\)", "None"),
    ("an execution has no deadline", "run", r"self\.shared\.policy\.deadline\b", "None::<Duration>"),
    ("the time that a handler names is ignored", "failed", r"failure\.named_pause\(\)", "failure.named_pause().filter(|_| false)"),
    ("jobs follow one that was not published", "publish", r"Err\(error\) => return Err\(.*\),", "Err(_) => {}"),
]
IN_HTTP = [
    ("guesses are not counted", "note", r"counts\[lacks as usize\]\.fetch_add\(1, Ordering::Relaxed\);", ""),
    ("each guess is a line", "note", r"\.admit\(clock\.now\(\), lacks\)", ".admit(clock.now(), lacks).or(Some(0))"),
    ("the page's orders leave no trace", "audit", r"\.log\(\)", ""),
    ("a slow handshake keeps its place", "greet", r"connection\.unless_sent_away\((.*)\)\.await", r"Some(\1.await)"),
    ("a front beyond loopback is silent", "bind", r"settings\.is_in_the_clear\(address\.ip\(\)\)", "false"),
    ("a token takes the places of others", "take", r"taken\.by_holder\.may_take\(.*\) \{", "(taken.count < self.total) {"),
    ("settles wait behind polls", "in_a_place", r"request\.uri\(\)\.path\(\)\.starts_with\(.*?\)", "true"),
    ("the proxy is the client that is held back", "check", r"Party::at\(client\)", "Party::at(peer)"),
    ("a page of strangers asks", "check", r"self\.is_passed_on\(.*?\)", "true"),
    ("a path without a body reads one", "serve", r"reading::bodiless", "reading::whole"),
    ("any text is JSON", "json_only", r"content_type\.is_some_and\(is_json\)", "true"),
    ("an unreadable header counts as absent", "ascii", r"\.map\(\|value\| .*\)\.transpose\(\)", ".and_then(text).map(Ok).transpose()"),
    ("the first of two headers counts", "only", r"\(_, Some\(_\)\) => Err\(.*\),", "(value, Some(_)) => { let _ = name; Ok(value.map(|value| value.as_bytes())) }"),
    ("a hop too many is trusted", "client_address", r"passed < hops", "passed <= hops"),
    ("requests that wait take the places of health", "new", r"places \+ KEPT_FOR_HEALTH", "places"),
    ("a token asks for any resource", "check_resource", r"!allowed\.contains\(resource\)", "false"),
    ("a token names any class", "class", r"allowed\.iter\(\)\.any\(.*\)(?= =>)", "true"),
    ("a token names any client", "labels", r"named == client", "!named.is_empty()"),
    ("permits of a client that is gone are kept", "drop", r"self\.session\.handle\(now, Event::Closed\);", ""),
    ("a permit that a proxy hangs up on is kept", "drop", r"PermitId::new\(&granted\.id\), Handle::try_current\(\)", "PermitId::new(&granted.id[..0]), Handle::try_current()"),
    ("what an array of settles was answered is forgotten", "take", r"last\(answer\)\.or\(known\.take\(\)\)", "last(answer)"),
    ("tokens are read once", "keep_reading", r"publisher\.send_replace\(holders\);", "drop(holders);"),
]
IN_ANSWERS = [
    ("labels that requests carry count as missing", "note", r"limit\.labels\.retain\(.*\);", ""),
    ("requests that a limit is not for lack its labels", "note", r"resource\.conditions_hold\(.*labels\)", "true"),
    ("an answer is larger than a message", "fitting", r"answer\.len\(\) <= most", "true"),
]
IN_STORE = [
    ("a part of the permits is longer than a message", "write_permits", r"PART_BYTES\.min\(.*\);", "PART_BYTES;"),
    ("resources push their readings of the clock out", "wall_clock_origin", r"self\.clock\.lock\(\)\.await", "Arc::new(Mutex::new(None)).lock_owned().await"),
]
IN_SESSION = [
    ("a freeze concerns the starts of all buckets", "concerns", r"charged\.iter\(\)\.any\(is_frozen\)", "charged.iter().any(is_frozen).max(true)"),
    ("a call that holds no place any more ends another one", "settled", r"lease\.filter\(\|lease\| now < lease\.ends\)", "lease"),
    ("an event of any epoch is believed", "news", r"epoch > highest_of_an_event\(unix_ms\) \|\| ", "unix_ms > highest_of_an_event(unix_ms).get() || "),
    ("an event alone is believed for ever", "announce", r"now \+ UNCONFIRMED", "(now + UNCONFIRMED).max(Time::NEVER)"),
    ("an id that is used up is not replaced", "refuse", r"if self\.ids\.renamings\(number\) < MAX_USED_UP", "if self.ids.renamings(number) > MAX_USED_UP"),
    ("a settle that reached no scheduler is lost", "undelivered", r"outbox\.settles\.undelivered\(batch\)", "outbox.settles.confirmed(batch).is_some()"),
    ("a settle that a scheduler has confirmed is sent again", "answered", r"outbox\.settles\.confirmed\(batch\)", "outbox.settles.is_empty()"),
    ("a settle without a receipt is not sent to the next leader", "ask_all_again", r"self\.outbox\(resource\)\.settles\.send_all_again\(\);", ""),
    ("an id of a client is replaced", "asked", r"self\.relays && (?=ask)", "!self.relays && "),
    ("a silent store keeps HTTP clients waiting", "refuse", r"self\.relays && remedy", "!self.relays && remedy"),
    ("bodies to price travel together", "message_group", r"is_alone: request\.price\.is_some\(\)", "is_alone: false"),
    ("a renewal forgets the computed cost", "asked", r"Some\(&self\.answer\.cost\)", "None"),
]
IN_PRICES = [
    ("a message may have any number of bodies", "prices", r"bodies > MAX_BODIES", "bodies > MAX_BODIES * 1024"),
    ("bodies wait to be priced without end", "start", r"in_room\(WAITING_BYTES\)", "in_room(usize::MAX)"),
    ("a cost beside a price counts", "prices", r"!request\.cost\.is_empty\(\)", "false"),
    ("any kind is priced by the resource's rules", "cost", r"\*price\.kind != \*pricing\.as_str\(\)", "false"),
    ("what is given is not looked at", "cost", r"&given(?=\))", "&Given::default()"),
    ("prices are computed on the permit thread", "without_prices", r"wants_price\(&inbound\)", "wants_price(&inbound) && false"),
]
IN_RECORDS = [
    ("what nobody has signed counts", "check", r"return Err\(SignatureFault::Missing\)", "return Ok(())"),
    ("a signature counts for any name", "signed", r"name\.as_bytes\(\)", "&name.as_bytes()[..0]"),
    ("the first key alone verifies", "check", r"keys\.iter\(\)\.any", "keys.iter().take(1).any"),
    ("an addition counts twice", "note_addition", r">= number", "> number"),
    ("any number of clients has a row of a day", "count_row", r"clients\.len\(\) < MAX_CLIENTS", "true"),
    ("permits of any length share a value", "fitting", r"content\(permit\)\.len\(\)", "permit.keyed.len()"),
    ("rows of a day have no bound in bytes", "count_row", r"\*bytes \+ size <= MAX_BYTES", "true"),
]
IN_LISTENER = [
    ("escapes hide a path", "spelled", r"plain\.is_ascii_alphanumeric\(\)", "false"),
    ("an escaped slash is a character", "spelled", r"b'/' \| b'\\\\' \|", r"b'\\\\' |"),
    ("a segment hides behind a semicolon", "normalised", r"if parameters\.is_some\(\)", "if false"),
    ("two slashes hide a path", "normalised", r"\.filter\(\|name\| !name\.is_empty\(\)\)", ""),
    ("a page of strangers asks", "check_page", r"origins\.all\(is_origin_own\)", "true"),
    ("any name leads here", "is_ours", r"self\.names\.contains\(.*\)", "true"),
    ("an owed answer is cut off", "serve", r"self\.state\.is_owed\.load\(Ordering::Relaxed\)", "false"),
    ("an idle connection stays", "idle_for", r"\*open == 0", "*open == usize::MAX"),
    ("a connection that is owed an answer is evicted", "has_room", r"\.filter\(\|connection\| connection\.is_idle\(\)\)", ""),
]
IN_LEADERSHIP = [
    ("a hand-over forgets what was used last", "hand_over", r"self\.keep_use\(&used\)", "async { drop(used) }"),
    ("a sealed memory goes on", "hold", r"memory\.sealed_at\.is_none\(\) && !is_behind", "!is_behind"),
    ("a memory opens for the revision that sealed it", "note_stored", r"revision <= \*sealed", "revision < *sealed"),
    ("a memory takes late checkpoints", "is_behind", r"self\.checkpoint < other\.checkpoint", "false"),
]
IN_ELECTIONS = [
    ("no standby is listed", "record", r"MAX_STANDBYS \} else", "0 } else"),
    ("a successor forgets what it holds", "later", r"held\.record\.checkpoint > record\.checkpoint", "false"),
]
IN_COMMANDS = [
    ("a client's name is a formula", "quoted", r"text\.starts_with\(FORMULA_STARTS\)", "false"),
]
IN_FORECASTS = [
    ("the trend is forgotten", "hours_of", r"amount \* factor", "amount"),
    ("weekends are like working days", "is_weekend", r">= SATURDAY", ">= 7"),
    ("what comes back is lost", "end", r"\(left \+ came\)", "left"),
]
IN_FOUND = [
    ("every message counts as refused", "note_handled", r"if is_refused", "if is_refused || handled.messages > 0"),
    ("a standby lists what it does not serve", "info", r"reporter\.is_leading\(\)", "true"),
    ("discovery answers at any subject", "answer", r"answer_to\(subjects, &message\.subject, reply\)", "Some(reply)"),
]
IN_NOTES = [
    ("a pause leaves no note", "note_pause", r"self\.outbox\.push_back\(.*\);", ""),
    ("every pause is of one limit", "note_pause", r"pauses\.len\(\) == 1", "true"),
]
IN_PAUSES = [
    ("a longer pause is left out of the log", "note", r"asked\.nanos\(\) / 11 > longest\.nanos\(\) / 10", "false"),
]
IN_SUBJECTS = [
    ("an inbox tells the user of an account", "answer_to", r"Some\(account\) => .*,", "Some(_) => Some(reply.into()),"),
    ("any inbox is a user", "answer_to", r"self\.is_listed\(reply\)", "true"),
    ("clients answer for accounts", "may_answer_to", r"\['\.', ACCOUNT\]", "'.'"),
]
IN_ORDERS = [
    ("limits with keys are frozen", "without_keys", r"!self\.core\(\)\.resource\(\)\[\*limit\]\.is_keyed\(\)", "true"),
]
IN_AUDIT = [
    ("orders over NATS leave no trace", "audit", r"\.log\(\)", ""),
]
IN_SUCCESSION = [
    ("settles of accounts are lost", "begin", r"in accounts \{", "in accounts.take(0) {"),
    ("settles of a hand-over are lost", "keep", r"self\.kept\.push\(", "drop("),
    ("a leader does not wait for its successor", "hand_over", r"if has_standby", "if !has_standby"),
]
IN_PAGE = [
    ("a token for one resource deletes jobs", "delete_job", r"check_all\(&caller\)\?;", ""),
    ("a viewer freezes", "freeze", r"PageRight::Operate", "PageRight::View"),
    ("a standby leads", "schedulers", r"duties\.stands_by", "duties.leads"),
]
IN_TRACES = [
    ("a standstill drops announcements", "forget_answers", r"=> to == event", "=> false && to == event"),
    ("a span has an attribute for a unit that no limit counts", "counted", r"resource\.counts\(unit\)", "!unit.is_empty()"),
    ("a settle has no link to its permit", "settled", r"permit\.into_iter\(\)\.collect\(\)", "Vec::new()"),
    ("a wait without a pause is linked from the last 429", "is_upstream_pause", r"Reason::Frozen \| Reason::Probe", "Reason::Stock"),
    ("recorded permits are kept for ever", "note", r"self\.order\.len\(\) == MAX_GRANTED", "false"),
]
IN_SPANS = [
    ("what a sender does not record is recorded", "records", r"parent\.is_sampled\(\)", "true"),
    ("lost spans are not counted", "send_all", r"count_lost\(self\.batch\.len\(\)\);", ""),
    ("a collector that is away is asked once", "send_batch", r"attempt < ATTEMPTS", "false"),
    ("the last spans are lost", "run", r"(?s)\}\s*self\.send_all\(\)\.await;", "}"),
]
IN_SCRIPTS = [
    ("a constant that is changed keeps its value", "check", r"!places\.contains\(at\)", "false"),
    ("functions that are called change nothing", "check", r"self\.deferred\.clear\(\);", ""),
    ("`this` is never the global object", "check", r"word == \"this\" && ", "false && "),
    ("a branch always declares its constant", "begins_statement", r"!self\.is_head\(before\)", "true"),
    ("an operator in the next line is none", "end", r"self\.tokens\.ends_expression\(self\.at\)", "true"),
    ("`return` may stand alone", "body", r" \|\| self\.tokens\.is_first\(self\.at\)", ""),
    ("a constant may stand below", "word", r"name < at", "true"),
    ("constants are counted once", "next", r"self\.left\.checked_sub\(.*\)", "Some(self.left)"),
    ("all slashes divide", "begins_regex", r"\(Kind::Mark, _\) => Ok\(true\)", "(Kind::Mark, _) => Ok(false)"),
    ("an expression in a template ends it", "close", r"self\.tokens\.is\(open, \"\$\{\"\)", "false"),
    ("bands of an output are counted", "property", r"key == \"bands\" && !in_output", "key == \"bands\""),
]
IN_PROXY = [
    ("a label takes the rest of its segment", "labels_of", r"part\.strip_suffix\(end\.as_str\(\)\)", "Some(part)"),
    ("a spelling takes another route", "path", r"if self\.normalise", "if false"),
    ("pages of strangers pass", "check_page", r"Ok\(self\.guard.*\)", "Ok(())"),
    ("each piece of a sending is a block", "from", r"start >= self\.len (?=\{)", "false "),
    ("kept bytes count as none", "growth", r"if length <= self\.spare\(\)", "if length <= BLOCK.1"),
    ("two lengths are one", "framing", r"lengths\.has_more \|\| ", ""),
    ("a length beside a coding is read", "framing", r"(\(Some\(_\), Some\(_\)\) =>) .*,", r"\1 Ok(Framing::Chunked),"),
    ("the next head is not checked", "rest", r"Expects::Head", "Expects::Anything"),
    ("a call that was not sent is charged", "call", r"call\.give_back\(\);", "drop(call);"),
    ("a 429 passes", "is_worth_repeating", r"status\(\) ==", "status() !="),
    ("a body that is not whole is sent again", "can_be_sent", r"kept\.is_whole && ", ""),
    ("nothing is read ahead", "broken", r"!kept\.has_ended && ", "false && "),
    ("strangers tell of clients", "forward", r"!client\.is_trusted", "false"),
    ("no cost is one request", "acquire", r"WireCost::new\(\)\.into\(\)", "Cost::default()"),
    ("any ended connection was ending", "was_ending", r"== ASKED_AGAIN", "!= NEW"),
    ("half an answer is none", "note_read", r"ANSWERED", "ASKED_AGAIN"),
    ("a POST is repeated", "is_repeatable", r"self\.method\.is_idempotent\(\)", "true"),
    ("an answer may be silent for ever", "poll_frame", r"ready!\(self\.silence\.poll\(cx\)\);", "return Poll::Pending;"),
    ("the client's secret stays", "put_into", r"headers\.insert\(.*\);", "headers.entry(self.credential.header.clone()).or_insert(self.value.clone());"),
    ("little is read ahead", "most_ahead", r"self\.memory\.is_half_taken\(\)", "true"),
    ("bodies tell no labels", "text", r"wanted == seen\.path", "false"),
    ("certificates have no names", "greet", r"ClientName::of\(.*\);", "None;"),
    ("a price is forgotten", "priced", r"Ok\(requested\.with_price\(&price\)\)", "Ok(requested)"),
    ("a body that is not understood is free", "priced", r"if requested\.has_cost\(\)", "if true"),
    ("a body that is not understood passes", "not_understood", r"if self\.settings\.asking\.refuses_unpriced", "if false"),
    ("a body that is not understood is not counted", "not_understood", r"self\.metrics\.unpriced\.inc\(\);", ""),
    ("a long body has no cost", "kept_bytes", r"if self\.reads_bodies\(\)", "if false"),
    ("calls without a model have no limit", "with_labels", r"let is_open = otherwise\.is_some\(\) &&", "let is_open = false &&"),
    ("each path generates", "counts", r"_ => Counts::Bounded", "_ => Counts::Both"),
    ("scripts take as many tokens", "twelfths_of", r"self\.twelfths\.three_bytes", "self.twelfths.letter"),
    ("a text is an attachment", "attached", r"is_base64 && ", ""),
    ("each answer counts once", "end", r"\.saturating_mul\(self\.answers\)", ""),
    ("a stream that breaks off took nothing", "used", r"output\.max\(brought\)", "output"),
    ("what is kept counts again", "without_kept", r"input\.saturating_sub\(kept\)", "input"),
    ("prompts are kept for ever", "kept", r"now\.since\(\*at\) < KEPT", "true"),
    ("depth has no bound", "open", r"self\.levels\.len\(\) >= MAX_DEPTH", "false"),
    ("a good answer objects", "code_at", r"is_certain && is_code", "is_code"),
    ("a sentence is a code", "code_at", r"is_certain && is_code", "is_certain"),
    ("a code does not reach the scheduler", "settle", r"outcome\.code\(code\)", "outcome.clone()"),
    ("a refusal that is final is repeated", "is_final", r"FINAL\.contains\(&code\)", "false"),
    ("a delay in a body is not passed on", "delay", r"\*delay > 0\.0", "false"),
    ("compressed answers are read", "new", r"let is_plain = .*;", "let is_plain = true;"),
    ("a call ends with its head", "new", r"if relay\.body\.is_end_stream\(\)", "if true"),
]

COMMANDS = Tests("rampmeter-scheduler", "lib")
IN_CONSENT = [
    ("nobody at a terminal is asked", "is_asked", r"!self\.yes", "false"),
    ("every answer is a yes", "ask", r'bail!\("nothing was done"\)', "Ok(())"),
    ("what is only tried is done", "to", r"Ok\(!self\.dry_run\)", "Ok(true)"),
    ("an order names limits that it is not for", "levels", r"limit\.name == \*name", "true"),
]
FRONT = Tests("rampmeter-front", "lib")
SERVE = Tests("rampmeter-serve", "lib")
STORE = Tests("rampmeter-store", "lib")


IN_DIALECTS = [
    ("a time from now is a moment in 1970", "epoch_ms", r"\*from <= number", "0.0 <= number"),
    ("a moment is a time from now", "epoch_ms", r"epoch\.1 <= 1\.0 \|\| unit_ms >= 1e3", "false"),
    ("a month in milliseconds is a moment", "epoch_ms", r"unit_ms >= 1e3", "true"),
    ("the shortest of joined pauses counts", "wait", r"max_by_key", "min_by_key"),
    ("the most of joined rests counts", "note", r"one\.number\.total_cmp\(&other\.number\)", "other.number.total_cmp(&one.number)"),
    ("the server's clock is ours", "server_time", r"stated\.abs_diff\(unix_ms\) > SAME_CLOCK_MS", "false"),
    ("the unit in a name does not count", "note", r"header\.unit_ms\.unwrap_or\(self\.retry_after_ms\)", "self.retry_after_ms"),
    ("milliseconds of a dialect are seconds", "read", r"self\.retry_after\.in_millis\(\)", "1e3"),
    ("plain reads all names", "header_name", r"self\.dialect != Dialect::Plain", "true"),
    ("an unlimited bucket is empty", "reading", r"Some\(None\) => return None,", ""),
    ("any window of a day is the call's", "reading", r"window\.is_some\(\) && scope", "false && scope"),
    ("a refilling bucket is empty until its reset", "stated_pause", r"!reading\.described\.is_gradual", "true"),
    ("a reset alone is no pause", "stated_pause", r"\.or\(self\.buckets\.lone_reset\)", ""),
    ("the reset of a full window is a pause", "lone_reset", r"self\.remaining\.is_none\(\)", "true"),
    ("a code is compared by its spelling", "is_same_code", r"plain\(code\) == plain\(known\)", "code == known"),
    ("an objection needs one of its parts", "fits", r"self\.statuses\.contain\(response\.status\)", "true"),
    ("a dialect decides before the configuration", "with_objections", r"objections\.into_iter\(\)\.chain\(self\.objections\.iter\(\)\.cloned\(\)\)", "self.objections.iter().cloned().chain(objections)"),
    ("an overloaded upstream teaches a rate", "verdict", r"self\.limited\(objection, true\)", "self.limited(objection, false)"),
    ("a pause of an objection never counts", "limited", r"\.or\(objection\.pause\)", ""),
    ("a pause has any length", "limited", r"\.map\(\|pause\| pause\.min\(MAX_PAUSE\)\)", ""),
    ("a text is found at any status", "code_in", r"\.filter\(\|_\| self\.statuses\.contain\(status\)\)", ""),
]
IN_HEADERS = [
    ("a secret leaves a worker", "may_be_secret", r"SECRETS\.contains\(&word\)", "word.is_empty()"),
    ("the name of a header has any length", "speaks_of_limits", r"name\.len\(\) <= MAX_HEADER_NAME", "true"),
    ("the last of many headers are lost", "visit_map", r"if speaks_of_limits\(&name\)", "if false"),
    ("any number of headers is kept", "visit_map", r"known\.len\(\) < MAX_HEADERS", "true"),
]


def system(only):
    return Tests("rampmeter-tests", "system", only)


IN_PRESETS = [
    ("a proxy that waits for an upstream keeps a scheduler from its work", "proxies", r"proxies\.retain\(\|proxy\| proxy\.upstream\.is_some\(\)\);", ""),
    ("a scenario has the workers alone", "scenario", r"\{text\}", ""),
]

IN_UPSTREAM = [
    ("a limit counts what another one counts in its place", "key_of", r"self\.except\.iter\(\)\.any\(matches\)", "false"),
    ("a header tells of the limit with the most left", "headers", r"min_by_key\(\|standing\| standing\.level\)", "max_by_key(|standing| standing.level)"),
]

IN_NATS_SERVER = [
    ("a copy of a mark counts", "left_by", r"file == identity\(&mark\)", "!file.is_empty()"),
    ("a store may change after a clean stop", "unchanged_since", r"changed\(&found\) > changed\(mark\)", "false"),
    ("a killed server leaves a mark", "kill", r"if self\.pid\(\)\.is_some\(\) \{", "if let Some(name) = self.running.name.clone() { self.running.child.start_kill()?; self.ended().await?; clean_stop::leave(&self.launch.store, &name).await?; } else if self.pid().is_some() {"),
]
IN_RECENT = [
    ("nothing is ever forgotten of what is recent", "advance", r"now\.since\(present\.0\) >= PERIOD", "false"),
]
IN_DOCTOR = [
    ("the only scheduler of a private server lacks a standby", "of_all", r"&& !is_private", ""),
    ("a unit without cost goes unseen", "is_unused", r"&& !used", "&& used"),
    ("a class starves in silence", "starving", r"own \* STARVING_PART < all", "own > all"),
    ("any rejection is too many", "rejections", r"all >= FEWEST_REJECTIONS && all \* REJECTED_PART > recent\.granted", "false"),
    ("a full queue is one of many refusals", "refusals", r'contains_key\("queue_full"\)', 'contains_key("")'),
]

PARTS = [
    Part(
        "scheduler/core/src",
        (
            Tests("rampmeter-scheduler-core", "lib"),
            Tests("rampmeter-scheduler-core", "behaviour"),
            Tests("rampmeter-simulator", "lib"),
            Tests("rampmeter-simulator", "behaviour"),
            # `complexity` judges times, which are longer beside other programs.
            Tests("rampmeter-scheduler-core", "memory"),
        ),
        IN_CORE,
    ),
    Part(
        "scheduler/core/src",
        tuple(Tests("rampmeter-scheduler-core", "behaviour", only) for only in ("pools", "budgets", "ways", "a_crash_leaves")),
        pools.IN_CORE,
    ),
    Part("scheduler/core/src", (Tests("rampmeter-simulator", "behaviour", "pools"),), pools.IN_WORLDS),
    Part("scheduler/policy/src", (Tests("rampmeter-scheduler-core", "behaviour", "pools"),), pools.IN_POLICY),
    Part(
        "scheduler/policy/src",
        (
            Tests("rampmeter-policy", "lib"),
            Tests("rampmeter-scheduler-core", "lib"),
            Tests("rampmeter-scheduler-core", "behaviour"),
            Tests("rampmeter-simulator", "behaviour"),
        ),
        IN_POLICY + bounds.IN_POLICY,
    ),
    Part(
        "scheduler/core/src",
        (Tests("rampmeter-scheduler-core", "lib"), Tests("rampmeter-scheduler-core", "behaviour")),
        bounds.IN_CORE,
    ),
    Part(
        "scheduler/discovery/src",
        (Tests("rampmeter-discovery", "lib"), Tests("rampmeter-discovery", "behaviour")),
        IN_DISCOVERY + bounds.IN_DISCOVERY,
    ),
    Part(
        "worker-sdk/session/src",
        (Tests("rampmeter-worker-session", "lib"), Tests("rampmeter-worker-session", "session")),
        IN_SESSION,
    ),
    Part(
        "sentinel-hub/src/evalscript",
        (Tests("rampmeter-sentinel-hub", "lib"), Tests("rampmeter-sentinel-hub", "refusals")),
        IN_SCRIPTS,
    ),
    Part("scheduler/serve/src/forecast", (SERVE,), IN_FORECASTS),
    Part("jobs/src", (Tests("rampmeter-jobs", "lib"), system("jobs")), IN_JOBS, waits=True),
    Part("scheduler/front/src", (FRONT, system("http")), IN_HTTP, waits=True),
    Part("scheduler/front/src/page", (FRONT, system("page")), IN_PAGE, waits=True),
    Part("listener/src", (Tests("rampmeter-listener", "lib"),), IN_LISTENER),
    Part("scheduler/serve/src/permits/incoming", (SERVE, system("pricing")), IN_PRICES, waits=True),
    Part("scheduler/serve/src/permits/incoming", (system("freezes"),), IN_ORDERS, waits=True),
    Part("scheduler/serve/src/permits/answers", (SERVE,), IN_ANSWERS),
    Part("scheduler/serve/src/permits", (system("audit"),), IN_AUDIT, waits=True),
    Part("scheduler/serve/src/permits", (system("hand_over"),), IN_SUCCESSION, waits=True),
    Part("scheduler/serve/src", (system("micro_service"),), IN_FOUND, waits=True),
    Part("scheduler/serve/src", (SERVE, system("traces")), IN_TRACES, waits=True),
    Part("scheduler/serve/src/leadership", (SERVE, system("usage")), IN_LEADERSHIP, waits=True),
    Part("scheduler/serve/src/leadership", (Tests("rampmeter-tests", "fire", "cluster"),), IN_ELECTIONS, waits=True),
    Part("scheduler/store/src", (STORE, system("usage")), IN_RECORDS, waits=True),
    Part("scheduler/store/src", (system("store::large_records"), system("first_start")), IN_STORE, waits=True),
    Part("scheduler/src/commands", (COMMANDS, system("usage")), IN_COMMANDS, waits=True),
    Part("scheduler/src/commands", (COMMANDS, system("commands::presets")), IN_PRESETS, waits=True),
    Part("scheduler/src/commands", (system("purge"),), IN_CONSENT, waits=True),
    Part("simulator/upstream/src", (Tests("rampmeter-upstream", "behaviour"), system("commands::presets")), IN_UPSTREAM, waits=True),
    Part("protocol/src", (SERVE,), IN_SUBJECTS),
    Part("protocol/src", (Tests("rampmeter-protocol", "lib"), Tests("rampmeter-protocol", "schema")), IN_HEADERS),
    Part(
        "scheduler/dialects/src",
        (
            Tests("rampmeter-dialects", "lib"),
            Tests("rampmeter-dialects", "examples"),
            Tests("rampmeter-dialects", "page"),
            Tests("rampmeter-dialects", "bounds"),
        ),
        IN_DIALECTS,
    ),
    Part("scheduler/serve/src/permits/answers", (system("limits::pauses"),), IN_PAUSES, waits=True),
    Part("scheduler/core/src", (system("limits::claims"), system("limits::pauses")), IN_NOTES, waits=True),
    Part("scheduler/nats-server/src", (Tests("rampmeter-nats-server", "server"),), IN_NATS_SERVER, waits=True),
    Part("scheduler/serve/src/permits", (SERVE,), IN_RECENT),
    Part("scheduler/src/commands/doctor", (system("commands::doctor"),), IN_DOCTOR, waits=True),
    Part("telemetry/src", (Tests("rampmeter-telemetry", "lib"), system("traces")), IN_SPANS, waits=True),
    Part("proxy/src", (Tests("rampmeter-proxy", "lib"), system("proxy"), system("paths")), IN_PROXY + pools.IN_PROXY, waits=True),
]
PLACES = [(part, *place) for part in PARTS for place in part.faults]
FAULTS = [Fault(part, number, *place) for number, (part, *place) in enumerate(PLACES, start=1)]
