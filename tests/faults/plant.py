#!/usr/bin/env python3
"""Plants faults in the core, in sessions, in jobs and in HTTP, one at a time, and sees whether a test
fails for each.

    tests/faults/plant.py              all of them, about a minute each
    tests/faults/plant.py 'head|lost'  those whose name this regular expression finds
    tests/faults/plant.py --list       their names
    tests/faults/plant.py --check      whether each can be planted, without a test

A fault names a function and a regular expression. The expression has to match at one place of all
functions with this name in the package, in whatever files they are. A function may therefore move,
and the rest of its text may change. The formatting of rustfmt shows where a function ends.

Faults are planted in a copy of the working tree under target/faults; the tree itself does not
change. The exit code is 1 if a fault survives the tests or has no place in the code any more.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "faults" / "tree"
# Where faults are planted, and which tests have to fail then.
CORE = ("scheduler-core/src", [["-p", "rampmeter-scheduler-core"], ["-p", "rampmeter-simulator"]])
SESSION = ("worker-sdk/session/src", [["-p", "rampmeter-worker-session"]])
JOBS = ("worker-sdk/jobs/src", [["--workspace", "--lib", "--test", "system", "jobs"]])
HTTP = ("scheduler/src/serve/http", [["--workspace", "--lib", "--test", "system", "http"]])
# A fault may make a test hang instead of fail.
PATIENCE_S = 600

# name, function, the one place in it (a regular expression), what is planted there
IN_CORE = [
    ("a sign", "spend", r"(self\.set_level\(.* )- ", r"\1+ "),
    ("a missing cap", "level_now", r"\((.*)\)\.min\(self\.full_at\(.*\)\)$", r"\1"),
    ("a refund without room", "correct", r"\((.*)\)\.min\(self\.room_since\(.*\)\)", r"\1"),
    ("rounding in favour of the caller", "time_to_refill", r"\((\w+\.0) - 1\) (/ .*) \+ 1", r"\1 \2"),
    ("headroom ignored", "demand", r"\(cost \+ .*\)(?=\.min)", "cost"),
    ("the margin forgotten", "new", r" - rate\.credit\(margin\)", ""),
    ("one bucket is enough", "search", r"== all\b", ">= 1"),
    ("a class outside the subject's is granted", "class_of", r"\*stated != \*\*permitted", "false"),
    ("the subject's class is ignored", "class_of", r"permitted\.map\(.*\)\.or\(stated\)", "stated"),
    ("later promises are not looked at", "start_in_gap", r"self\.check_later_starts\(.*\)\?;", ""),
    ("a lost queue entry", "remove", r"self\.merge\((\w+), (\w+)\), ", r"\1.or(\2), "),
    ("idle clients save credit", "join", r"\.end\.max\(clock\)", ".end"),
    ("weights ignored", "weight", r"\.copied\(\)\.unwrap_or\(Weight::ONE\)", ".map_or(Weight::ONE, |_| Weight::ONE)"),
    ("clocks stand still", "advance", r"self\.\w+ = .*\.max\(tag\);", "let _ = tag;"),
    ("free service is counted", "serve", r"contended != LimitSet::default\(\)", "true"),
    ("limits without waiting requests give credit", "clock_for", r"set\.and\(.*?\)", "set"),
    ("clocks pass waiting requests", "enter", r"(first\.map\(.*\)), service", r"\1.filter(|_| false), service"),
    ("the less urgent first", "dispatch", r"(?<=as u8\))\.map\(ClassId\)", ".rev().map(ClassId)"),
    ("no late binding", "blocking", r"> latest\b", "== Time::NEVER"),
    ("holds are kept", "dispatch", r"self\.ledger\.withdraw\(.*\bhold\b.*\);", "let _ = hold;"),
    ("no class is ever promoted", "starving", r"<= now\b", "< Time::ORIGIN"),
    ("any service of its class helps a starving request", "last_served", r"\bserved\.min\(\)", "self.served.iter().copied().max().or(served.min())"),
    ("a repeated id is charged again", "ask", r"self\.permits\.find\(&ask\.id\)", "None"),
    ("an id in use serves another request", "is_anothers", r"in_use && ", "!in_use && "),
    ("starts are reserved without a bound", "ask", r"\.unwrap_or\(ahead\)\.min\(ahead\)", ".unwrap_or(ahead.max(MAX_AHEAD))"),
    ("strangers take places in flight", "may_be_of_predecessor", r"is_some_and\(.*\)", "is_some_and(|lease| now <= Time::NEVER - lease)"),
    ("permits that cost next to nothing take places", "is_small", r"\.saturating_mul\(MANY_CALLS\)", ".saturating_mul(u64::MAX)"),
    ("a checkpoint without its budget", "level_snapshot", r"(level\(now\)) - budget", r"\1"),
    ("promises are not pending debits", "level_snapshot", r"listed\.without\(.*?\) \+ ", ""),
    ("budgets are not pending debits", "level_snapshot", r" \+ unknown\b", ""),
    ("pending debits are handed out", "full_at", r" - .*\bpending_debits\.at\(.*\)$", ""),
    ("a checkpoint covers starts for ever", "covers", r"start <= self\.until && ", ""),
    ("grants beyond the checkpoint", "covers", r"\((?=within_\w+\(\) \|\|)", "(true || "),
    ("the checkpoint that the store holds is forgotten", "confirm", r">= number\b", "> number"),
    ("doubts are ignored", "doubt", r"self\.trusted_from = .*;", ""),
    ("a lapsed start is repeated", "ask_again", r"\S+ \+ LATENESS < now", "false"),
    ("a settled id is granted again", "ask_again", r"!granted\.is_open\(\)", "false"),
    ("a wrong unit undoes a settle", "settle_used", r"= (self\.resource\.check_units\(.*\));", r"= Ok(\1?);"),
    ("one client's word is enough for hours", "pauses", r"told\.min\(UNCONFIRMED\)", "told"),
    ("one client is two witnesses", "is_confirmed_by", r"asker\.differs_from\(self\.claimed_by\)", "asker != Asker::UNKNOWN && self.claimed_by != Asker::UNKNOWN"),
    ("an answer speaks of any limit", "limits_in", r"charged\(&\|limit\| limit == named\)", "std::iter::once(named).collect()"),
    ("every limit is a quota", "exhausted", r"of\(Limit::is_quota\)", "of(|_| true)"),
    ("another store empties quotas", "distrust_stock", r"!limit\.has_long_period\(\)", "true"),
    ("returned permits fill the memory", "busy", r" - self\.idle\.len\(\)", ""),
    ("returned ids have no bound", "push_idle", r"\S+ > MAX_IDLE_PERMITS", "false"),
    ("a list of starts ends behind a returned one", "unlist", r"\.swap_remove\(", ".truncate("),
    ("delayed answers are paid as if they had come", "held_up", r"self\.put_off\(.*\bgranted\b.*;", "drop(granted);"),
    ("capacity of delayed answers goes to the queue", "dispatch", r"self\.delivery\.is_held_up\(\)", "false"),
    ("one bucket for all keys", "find", r"(?s)let is_it = \|slot\| self\.get\(slot\)(.*?) && .*find\(key, is_it\)", r"self.buckets.nth_place(0).filter(|slot| self.get(*slot)\1 && !key.is_empty()))"),
    ("one client fills a queue", "has_room", r"\|count\| \*count < \w+", "|_| true"),
    ("a request for two keys moves between their queues for ever", "admit", r"\w+\.claim = Some\((.*)\);", r"let _ = \1;"),
    ("a key's reserved part stops all other requests", "earliest_of_key", r"\bbucket\b.*\.commit\(.*;", "let _ = (&mut bucket, start, kept, its_tier);\n            return Time::NEVER;"),
    ("changes of keys are not noted", "update", r"self\.note_change\(slot\);", ""),
    ("a changed bucket changes no plan", "take_change", r"std::mem::take\(.*\)", "{ self.changed = false; false }"),
    ("limit sets have no bound", "tree_for", r"\S+ < MAX_SETS", "true"),
    ("an unused turn is lost", "leave", r"client\.unused\.insert\(.*\);", ""),
    ("a spent quota refuses all requests in one event", "refuse_without_quota", r"\s+&& self\.take_step\(\)", ""),
    ("all requests start in one event", "serve_class", r"!self\.take_step\(\)", "false"),
    ("the rest of a plan waits for the next event", "dispatch", r"self\.steps_left == 0", "false"),
    ("deadlines of one client do not matter", "due_before", r"(let own = .*)\?;", r"\1.filter(|_| false)?;"),
    ("only the first slice gets queue updates", "next_slice", r"self\.round = ", "let _ = "),
    ("buckets of keys are forgotten before they are full", "is_unused", r" && self\.level_now\(.*\) >= .*", ""),
    ("promises of keys are never spent", "advance", r"known\.bucket\.advance\(.*\);\s*(?=let next)", ""),
    ("newcomers pass a key queue", "blocking_key", r"(?s)(\w+)\.is_some_and\(\|\1\| .*?\)\)(?=\s*\|\|)", r"({ let _ = \1; false })"),
    ("key queues never open again", "examine_key", r"return self\.queues\.keys\.set_alarm\(.*;", "return;"),
    ("a limit that goes on begins anew", "change", r"Some\(\w+\) => .*\.recast\(now, limit\)", "Some(_) => AdaptiveLimit::new(limit, resource.spec().start, now)"),
    ("checkpoints of former limits allow more", "after", r"after\.doubt\(\);", "after.trusted_from = before.trusted_from;"),
    ("permits keep the places of former limits", "change_limits", r"self\.permits\.change\(.*\);", ""),
    ("keys keep the places of former limits", "change", r"known\.limit = to;", ""),
    ("a waiting request is charged by former limits", "charge_anew", r"self\.limits_of\(waiting\)", "&self.resource"),
    ("a change charges all that wait in one event", "continue_change", r"\bMAX_CHARGED\b", "usize::MAX"),
    ("a hand-over refuses all that wait in one event", "continue_change", r"\bMAX_SENT_AWAY\b", "usize::MAX"),
    ("the rest of a change waits for the next event", "next_wakeup", r"if self\.is_changing\(\) .* else \{ dispatch \}", "dispatch"),
    ("requests start before a change has charged all", "dispatch", r" \|\| self\.is_changing\(\)", ""),
    ("new requests pass those of a change", "join_queue", r"if self\.is_changing\(\)", "if false"),
    ("reservations pass those of a change", "reserve", r"= self\.is_changing\(\);", "= false;"),
    ("answers that wait for a change wait for the store", "end_change", r"self\.ask_pending\(now\);", ""),
    ("keys of former queues are never forgotten", "continue_change", r"self\.ledger\.keys\.note_change\(key\)", "drop(key)"),
    ("clients keep the service of former limits", "begin_edition", r"self\.forget_all\(\);", ""),
    ("a successor knows the end of a window too exactly", "earliest", r" - self\.earlier", ""),
    ("a promise counts late for a successor", "begin_earlier", r"\(block\.from - earlier\)", "block.from"),
    ("a sliding window forgets a tenth early", "new", r"(?<=length: )period \+ guard\b", "Span::from_nanos(period.nanos() / 10 * 9)"),
    ("calls in flight are over a tenth early", "new", r"(?<=length: )period(?=, until_settled)", "Span::from_nanos(period.nanos() / 10 * 9)"),
    ("starts up to the very end of windows", "starts_in", r"\.ends - guard", ".ends"),
    ("a call after the reset spends the quota before it", "reset_of_spent", r"level_without\(limit, now, held\)", "level(limit, now)"),
    ("what is held for a waiting request is spent", "level_without", r"(self\.level_until\(.*\)) \+ held\b", r"{ let _ = held; \1 }"),
    ("the limit that moves a start last blocks others, whether it has room or not", "blocking", r"(self\.ledger\..*\.or_else\(any\))\.or\(offer\.limited_by\)", r"offer.limited_by.or_else(|| \1)"),
    ("a promise under a longer window ends at its start", "restore_promise", r"self\.hold\(.*\);", ""),
    ("returned permits come first in a snapshot", "latest_permits", r"(?<=State::Returned => Some\(Time::)ORIGIN", "NEVER"),
    ("the rest of a window is wasted", "backfill", r"self\.start_or_hold\(.*\);", "let _ = (slot, until, Span::ZERO, StartReason::Backfilled);"),
    ("a request that fits later in a window is not told", "start_or_hold", r"\w+\.at <= latest(?= =>)", "latest < offer.at || latest == Time::NEVER"),
    ("a request that was passed has not starved", "leave", r"StartReason::InTurn \| StartReason::Promoted", "_"),
    ("a request for a spent quota stands aside", "take_turn", r"(?s)if self\.turn_away_if_spent\(.*?\}", ""),
    ("shadow limits see nothing", "commit", r"self\.shadow_limits\.note_granted\(.*\);", "let _ = (key, limit, latest);"),
    ("a request that waits for its key holds the queue", "take_turn", r"if !self\.wait_for_key\(.*\) ", ""),
    ("reservations pass a key queue", "offer_behind_queue", r"(\w+)\.waiting\(\) > 0", r"!\1.is_empty()"),
    ("a successor's keys are full", "restore_keys", r"\(None, Some\(\w+\)\) => .*\.set_absent_empty\(.*,$", "(None, Some(_)) => {}"),
    ("far promises on keys are not listed", "fenced_keys", r"(far_debts\(now, false\)\.take)\(.*?\)", r"\1(0)"),
    ("keys outside the checkpoint fill before near starts are past", "fenced_keys", r"now \+ NEAR\b", "now"),
    ("keys in checkpoints need no budget", "cover", r"(?<=\.covers\()resource\.credit\(.*?\)", "Credit::ZERO"),
    ("budgets of keys are not spent", "charge", r"(?<=\.charge\()resource\.credit\(charge\..*?\)", "Credit::ZERO"),
    ("a checkpoint without the budgets of its keys", "recorded", r" - budget - late\b", " - late"),
    ("a checkpoint without its keys' share of windows", "recorded", r"credit: budget\b", "credit: Credit::ZERO"),
    ("a checkpoint without the budgets of unlisted keys", "fenced_keys", r"(has_budget\(limit\)\.map\()\|budgets\| .*\)$", r"\1|_| Credit::ZERO)"),
    ("keys fill before they are used", "recorded", r" - budget - late\b", " - budget"),
    ("keys in use have no place in checkpoints", "enlist", r"self\.in_use\.insert\(.*\);", ""),
    ("grants of keys on pages are forgotten", "restore_page", r"spent\[.*?\]\)", "Credit::ZERO)"),
    ("a far start is told before the store knows", "reserve", r"self\.promise\(", "self.grant("),
    ("promises outside the list refill", "without", r"bucket\.outstanding_after\((\w+)\) - .*(?=,$)", r"bucket.pending_debits().at(just_after(\1).at)"),
    ("the first of a group applies", "new", r"\w+\.sort_by_key\(\|candidate\| Reverse.*;", ""),
    ("costs are learned backwards", "learn", r"self\.above_one \+=", "self.above_one -="),
    ("a successor learns anew", "restore_level", r"\w+\.resume_learning\(.*;", "let _ = learned;"),
    ("a checkpoint without what was learned", "level_snapshot", r"(?<=learned: ).*(?=,$)", "None"),
    ("what was learned under another policy counts", "resumed", r"\w+\.policy == .*\)(?=\)\?;)", "true"),
    ("what is said to be learned has no bounds", "resumed", r"\.min\(max_loss\)", ".min(max_loss.max(WHOLE))"),
    ("what was learned does not fade without a scheduler", "resumed", r"(?<=estimated: ).*(?=,$)", "Time::NEVER"),
    ("unknown calls in flight take no room", "count_anew", r"self\.ledger\.renew\(.*\bkey\b.*;", "let _ = key;"),
    ("unknown calls in flight give room under checkpoints without them", "count_anew", r"self\.charge\((&\w+), now\);", r"""if let Some(budget) = &mut self.grant_budget {
            budget.release(&self.resource, key, \1, LimitSet::ALL, true);
        }"""),
    ("headroom is told as stock", "obstacle_in", r"pays\(0\) => Some\(Reason::Headroom\)", "pays(0) => Some(Reason::Stock)"),
    ("a pause is told as stock", "obstacle_in", r"Some\(Reason::Frozen\)", "Some(Reason::Stock)"),
    ("a client that had its share is told of stock", "obstacle", r"self\.is_passed\(\w+\)", "false"),
    ("a pause delays no estimate", "paid_after", r"bucket\.freeze\(\)\.map_or\(paid, .*\)$", "paid"),
    ("the time of calls in flight is not learned", "correct", r"self\.adaptive_mut\(limit\)\.call_time\.note\(.*;", "let _ = key;"),
    ("the next page begins at the front", "front_after", r"self\.iter\(root\.slot, after\)", "self.iter(root.slot, after.filter(|_| false))"),
    ("the default cost is free where no limit counts it", "check_default_cost", r"self\.counts\(REQUESTS\)", "true"),
    ("labels that requests carry count as missing", "note", r"limit\.labels\.retain\(.*\);", ""),
    ("requests that a limit is not for lack its labels", "note", r"resource\.conditions_hold\(.*labels\)", "true"),
    ("a call that goes on is said to be settled", "settle", r"matches!\(outcome, Outcome::Extend\(_\)\) && ", "false && "),
    ("one client moves a window as often as it likes", "hear", r" && now >= self\.moved \+ self\.period", ""),
    ("one client's word moves what another says", "hear", r"!asker\.differs_from\(self\.said_by\)", "true"),
    ("calls start where either window may count them", "starts_in", r" - self\.slack\(\)", ""),
    ("own starts after the answer count as those of others", "own_at", r" - told\.started_after\(at\)", ""),
    ("an answer of the last window corrects the next", "present_until", r"window\.contains\(statement\.at\) && ", ""),
    ("what one client says of others stays", "add", r"Some\(now \+ UNCONFIRMED\)\.filter\(.*\)", "None"),
    ("no probe follows when what one client said lapses", "lapse", r"self\.freeze = .*;", ""),
    ("starts of the last window count in the next", "cut_anew", r"(?<=recent = )told\.started_since\(.*\)", "told.started_since(Time::ORIGIN)"),
    ("starts are forgotten when a window moves", "cut_anew", r"(?<=recent = )told\.started_since\(.*\)", "Credit::ZERO"),
    ("nothing is held back of a window for others", "held_back", r"others\.of\(window\)", "others.of(window).min(Credit::ZERO)"),
    ("own starts on their way count as those of others", "learn_usage_of_others", r"limit, now, now\)", "limit, now, statement.at)"),
    ("a higher rest is believed at once", "learn_remaining", r"surplus\.min\(told\.may_lower\(.*\)\)", "surplus"),
    ("more than written is followed", "bounded", r"\.min\(spec\.capacity\.micros\(\)\)", ""),
    ("less than the floor is followed", "bounded", r"\.max\(floor\.max\(1\)\)", ""),
    ("one answer raises a capacity", "hear", r" && answers >= ANSWERS && now >= since \+ CONSISTENT", ""),
    ("another client's word alone raises a capacity", "hear", r"is_confirmed && answers", "answers"),
    ("a successor forgets when windows end", "restored", r"ends\.and_then\(phase\)", "None"),
    ("deadlines are forgotten", "add", r"self\.deadlines\.extend\(.*;", ""),
]
IN_JOBS = [
    ("the last job first", "first_job", r"get_first_raw_message_by_subject\((.*?), 1\)", r"get_last_raw_message_by_subject(\1)"),
    ("a job that has ended stays", "finish", r"self\.store\(\)\.finish\((\w+)\)\.await;", r"let _ = \1;"),
    ("attempts are not written down", "attempt", r"self\.note_attempt\(.*;", ""),
    ("a dead letter is thrown away", "give_up", r"self\.hold\.during\(.*add_dead_letter.*\bheaders\b.*;", "drop(headers);"),
    ("attempts have no end", "is_spent", r">= self\.max_attempts", "> u32::MAX - 1"),
    ("a 429 ends the job", "attempt", r"\w+\.is_throttled\(\)", r"\g<0> && number == 0"),
    ("one job by two ids", "publish", r"\.message_id\(&id\);", ";\n        drop(&id);"),
    ("a job that arrives at a closing lane is not seen", "receive", r"(?<=Some\(_\) => )drop\(store\.put_lane_lease\(.*\bsequence\b.*(?=,$)", "store.forget(sequence).await"),
    ("a queue of another party is taken", "unless_different", r"differences\.is_empty\(\)", "differences.len() < usize::MAX"),
    ("a job that was put back comes at once", "receipt", r"(?<=Receipt::Sleep\(Duration::from_millis\()(\w+\.after_ms)", r"\1.min(1)"),
]
IN_HTTP = [
    ("a page of strangers asks", "check", r"is_own\(.*?\) \{", "true {"),
    ("any name leads to the scheduler", "is_ours", r"self\.names\.contains\(.*\)", "true"),
    ("any text is JSON", "json_only", r"content_type\.is_some_and\(is_json\)", "true"),
    ("an unreadable header counts as absent", "ascii", r"\.map\(\|value\| .*\)\.transpose\(\)", ".and_then(text).map(Ok).transpose()"),
    ("the first of two headers counts", "only", r"\(_, Some\(_\)\) => Err\(.*\),", "(value, Some(_)) => { let _ = name; Ok(value.map(|value| value.as_bytes())) }"),
    ("a hop too many is trusted", "client_address", r"passed < hops", "passed <= hops"),
    ("escapes hide a path", "decoded", r"is_unreserved\(plain\)", "false"),
    ("requests that wait take the places of health", "new", r"places \+ KEPT_FOR_HEALTH", "places"),
    ("a token asks for any resource", "check_resource", r"!allowed\.contains\(resource\)", "false"),
    ("a token names any class", "class", r"allowed\.iter\(\)\.any\(.*\)(?= =>)", "true"),
    ("a token names any client", "labels", r"named == client", "!named.is_empty()"),
    ("tokens are read once", "keep_reading", r"publisher\.send_replace\(holders\);", "drop(holders);"),
]
IN_SESSION = [
    ("an event of any epoch is believed", "news", r"epoch > highest_of_an_event\(unix_ms\) \|\| ", "unix_ms > highest_of_an_event(unix_ms) || "),
    ("an event alone is believed for ever", "announce", r"now \+ UNCONFIRMED", "(now + UNCONFIRMED).max(Time::NEVER)"),
]
FAULTS = [
    (part, *fault)
    for part, faults in [(CORE, IN_CORE), (SESSION, IN_SESSION), (JOBS, IN_JOBS), (HTTP, IN_HTTP)]
    for fault in faults
]


def copy_tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = set(listed.stdout.splitlines())
    for old in [path for path in COPY.rglob("*") if path.is_file()]:
        if str(old.relative_to(COPY)) not in names:
            old.unlink()
    for name in names:
        source, target = ROOT / name, COPY / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def run_tests(parts):
    """Whether they fail, and the first line that says which. What fails first spares the rest."""
    results = map(run_part, parts)
    return next((result for result in results if result[0]), (False, ""))


def run_part(tests):
    command = ["cargo", "test", "--quiet", "--target-dir", str(COPY.parent / "build"), *tests]
    build = subprocess.run([*command, "--no-run"], cwd=COPY, capture_output=True, text=True)
    if build.returncode != 0:
        sys.exit("it does not even compile:\n" + build.stderr)
    try:
        run = subprocess.run(command, cwd=COPY, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return True, f"no end within {PATIENCE_S} s"
    failures = [line for line in run.stdout.splitlines() if line.startswith("---- ")]
    return run.returncode != 0, failures[0].strip("- ").removesuffix(" stdout") if failures else ""


def functions(text, name):
    """The functions of this name, from the line that begins them to their closing brace."""
    head = rf"^( *)(?:pub(?:\([^)\n]*\))? )?(?:const |async )*fn {name}\b"
    one_line, more_lines = r".*[};]$", r"(?s:.*?)^\1(?:\}|\).*;)$"
    return re.finditer(f"{head}(?:{one_line}|{more_lines})", text, re.MULTILINE)


def places(folder, function, pattern):
    """Every place that the pattern matches: a file, and the match in its text."""
    pattern = re.compile(pattern, re.MULTILINE)
    for path in sorted(folder.rglob("*.rs")):
        text = path.read_text()
        for body in functions(text, function):
            yield from ((path, match) for match in pattern.finditer(text, body.start(), body.end()))


def misplaced(root, folder, name, function, pattern):
    """Why a fault can't be planted, or nothing."""
    count = len(list(places(root / folder, function, pattern)))
    if count != 1:
        return f"{name}: `{pattern}` matches at {count} places of `fn {function}` in {folder}"
    return None


def plant(part, name, function, pattern, planted):
    """Whether a test failed."""
    folder, parts = part
    reason = misplaced(COPY, folder, name, function, pattern)
    if reason:
        print(reason, flush=True)
        return False
    [(path, place)] = places(COPY / folder, function, pattern)
    text = place.string
    try:
        path.write_text(text[: place.start()] + place.expand(planted) + text[place.end() :])
        failed, which = run_tests(parts)
    finally:
        path.write_text(text)
    print(f"{name}: {'caught by' if failed else 'SURVIVES'} {which}", flush=True)
    return failed


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted == "--list":
        return print("\n".join(name for _, name, *_ in FAULTS))
    if wanted in ("-h", "--help"):
        return print(__doc__.strip())
    if wanted == "--check":
        reasons = [misplaced(ROOT, folder, *place) for (folder, _), *place, _ in FAULTS]
        return sys.exit("\n".join(filter(None, reasons)) or None)
    chosen = [fault for fault in FAULTS if re.search(wanted, fault[1])]
    if not chosen:
        sys.exit(f"`{wanted}` finds no fault; see --list")
    copy_tree()
    for _, parts in {part[0]: part for part, *_ in chosen}.values():
        failed, which = run_tests(parts)
        if failed:
            sys.exit(f"the tests fail without any fault: {which}")
    caught = sum(plant(*fault) for fault in chosen)
    print(f"{caught} of {len(chosen)} faults caught")
    sys.exit(caught != len(chosen))


if __name__ == "__main__":
    main()
