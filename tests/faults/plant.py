#!/usr/bin/env python3
"""Plants faults in the core and in jobs, one at a time, and sees whether a test falls for each.

    tests/faults/plant.py              all of them, some minutes
    tests/faults/plant.py headroom     those whose name has this in it
    tests/faults/plant.py --list       their names
    tests/faults/plant.py --check      whether each can be planted, without a test

A copy of the working tree under target/faults is what is changed; the tree itself is not touched. Ends with 1 if a fault
survives the tests, or can't be planted any more because the code has moved on.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "faults" / "tree"
# Where faults are planted, and what has to fall then.
CORE = ("scheduler-core/src", ["-p", "rampmeter-scheduler-core", "-p", "rampmeter-simulator"])
JOBS = ("worker-sdk/jobs/src", ["--workspace", "--lib", "--test", "system", "jobs"])
# A fault may make a test hang instead of fail.
PATIENCE_S = 600

# name, file, what stands there, what is planted
IN_CORE = [
    ("a sign", "token_bucket.rs", "self.set_level(limit, start.key.at, level - start.cost)", "self.set_level(limit, start.key.at, level + start.cost)"),
    ("a missing cap", "token_bucket.rs", "(self.base + limit.rate().refill(now)).min(self.full_at(limit, now))", "self.base + limit.rate().refill(now)"),
    ("a refund without room", "token_bucket.rs", "let returned = (charged - actual).min(self.room_since(limit, now, since));", "let returned = charged - actual;"),
    ("rounding in favour of the caller", "credit.rs", "(credit.0 - 1) / self.per_nano + 1", "credit.0 / self.per_nano"),
    ("headroom ignored", "limit.rs", "(cost + self.headrooms[usize::from(tier)]).min(self.full)", "cost.min(self.full)"),
    ("the margin forgotten", "limit.rs", "full: rate.credit(spec.capacity) - rate.credit(margin),", "full: rate.credit(spec.capacity),"),
    ("one bucket is enough", "all_buckets.rs", "if agreeing == all", "if agreeing >= 1"),
    ("later promises are not looked at", "token_bucket.rs", "self.check_later_starts(limit, gap, start, cost)?;", ""),
    ("a lost queue entry", "treap.rs", "(self.merge(before, rest), found)", "(before.or(rest), found)"),
    ("idle clients save credit", "clients.rs", "client.end.max(clock))", "client.end)"),
    ("weights ignored", "resource.rs", ".copied().unwrap_or(Weight::ONE)", ".map_or(Weight::ONE, |_| Weight::ONE)"),
    ("clocks stand still", "virtual_clock.rs", "self.time = self.time.max(tag);", "let _ = tag;"),
    ("free service is counted", "clients.rs", "contended != LimitSet::default());", "true);"),
    ("limits that nobody waits for give credit", "clients.rs", "set.and(self.held).limits().map(|limit| self.clock(limit).time).min()", "set.limits().map(|limit| self.clock(limit).time).min()"),
    ("clocks pass those who wait", "class_queue.rs", "first.map(|entry| entry.turn.tag), service", "first.map(|entry| entry.turn.tag).filter(|_| false), service"),
    ("the less urgent first", "dispatch.rs", "(0..self.queues.classes().len() as u8).map(ClassId) {", "(0..self.queues.classes().len() as u8).rev().map(ClassId) {"),
    ("no late binding", "dispatch.rs", "if offer.at > latest {", "if offer.at == Time::NEVER {"),
    ("holds are kept", "dispatch.rs", "self.ledger.withdraw(now, hold.key, &self.permits.get(hold.slot).bill);", "let _ = hold;"),
    ("nobody is ever promoted", "dispatch.rs", "filter(|(at, ..)| *at <= now)", "filter(|(at, ..)| *at < Time::ORIGIN)"),
    ("any service of its class helps one that starves", "class_queue.rs", "served.min().unwrap_or(Time::ORIGIN)", "self.served.iter().copied().max().or(served.min()).unwrap_or(Time::ORIGIN)"),
    ("a repeated id is charged again", "ask.rs", "ask.id.as_ref().and_then(|id| self.permits.find(id))", "None"),
    ("a mark without its budget", "level_marks.rs", "rate.micros(book.level(now) - budget)", "rate.micros(book.level(now))"),
    ("promises are not withheld", "level_marks.rs", "listed.without(&book.bucket, id, from) + unknown", "unknown"),
    ("budgets are not withheld", "level_marks.rs", "listed.without(&book.bucket, id, from) + unknown", "listed.without(&book.bucket, id, from)"),
    ("pending debits are handed out", "token_bucket.rs", "limit.full() - self.extra().pending_debits.at(time)", "limit.full()"),
    ("a mark covers starts for ever", "fence.rs", "start <= self.until && ", ""),
    ("grants beyond the mark", "fence.rs", "(within_marks() || within_ride())", "(true || within_marks() || within_ride())"),
    ("the mark that is held is forgotten", "fence.rs", "open.number >= number", "open.number > number"),
    ("doubts are ignored", "grant_budget.rs", "self.trusted_from = self.next();", ""),
    ("a checkpoint without its budget", "level_snapshots.rs", "rate.micros(book.level(now) - budget)", "rate.micros(book.level(now))"),
    ("promises are no pending debits", "level_snapshots.rs", "listed.without(&book.bucket, id, from) + unknown", "unknown"),
    ("budgets are no pending debits", "level_snapshots.rs", "listed.without(&book.bucket, id, from) + unknown", "listed.without(&book.bucket, id, from)"),
    ("what is withheld is handed out", "token_bucket.rs", "limit.full() - self.rest().withheld.at(time)", "limit.full()"),
    ("a checkpoint covers starts for ever", "grant_budget.rs", "start <= self.until && ", ""),
    ("grants beyond the checkpoint", "grant_budget.rs", "(within_open() || within_ride())", "(true || within_open() || within_ride())"),
    ("the stored checkpoint is forgotten", "grant_budget.rs", "open.number >= number", "open.number > number"),
    ("a lapsed start is told of again", "ask.rs", "granted.key.at + LATENESS < now", "false"),
    ("what was given back fills the memory", "permits.rs", "self.len() - self.idle.len()", "self.len()"),
    ("ids that were given back have no bound", "permits.rs", "if self.idle.len() > MAX_IDLE_PERMITS {", "if false {"),
    ("a list of starts is cut off behind what was given back", "permits.rs", "listed.swap_remove(place);", "listed.truncate(place);"),
    ("answers that are held up are paid as if they had come", "delivery.rs", "self.put_off(now, told.slot, granted, now.since(told.at));", "drop(granted);"),
    ("answers that are held up are given to the line", "dispatch.rs", "if self.delivery.is_held_up() {", "if false {"),
    ("one bucket for all keys", "keys.rs", "let is_it = |slot| self.get(slot).is_some_and(|known| known.limit == limit && *known.key == *key);\n        self.index.find(key, is_it)", "self.buckets.nth_place(0).filter(|slot| self.get(*slot).is_some_and(|known| known.limit == limit && !key.is_empty()))"),
    ("a line that one client fills", "admission_cap.rs", "self.0.get(&party).is_none_or(|count| *count < max)", "self.0.get(&party).is_none_or(|_| true)"),
    ("who needs two keys is sent from gate to gate for ever", "key_waits.rs", "key_queue.claim = Some((position, slot));", "let _ = (position, slot);"),
    ("what a key keeps for one stops all others", "key_waits.rs", "bucket.to_mut().commit(limit, now, start, limit.draw(kept, its_tier));", "let _ = (&mut bucket, start, kept, its_tier);\n            return Time::NEVER;"),
    ("nothing is noted of keys that change", "keys.rs", "        self.note_change(slot);\n        self.change_at(now, slot, change)", "        self.change_at(now, slot, change)"),
    ("a changed bucket changes no plan", "all_buckets.rs", "std::mem::take(&mut self.changed)", "{ self.changed = false; false }"),
    ("sets of limits have no bound", "fair_order.rs", "self.roots.len() < MAX_SETS", "true"),
    ("a turn that was not used is lost", "clients.rs", "client.unused.insert(slice.end, slice.begin);", ""),
    ("all are refused at once when a quota is gone", "dispatch.rs", "while let Some(slot) = self.without_quota(now)\n            && self.take_step()", "while let Some(slot) = self.without_quota(now)"),
    ("all start at once", "dispatch.rs", "if !self.take_step() {", "if false {"),
    ("what a plan has left to do waits for the next event", "dispatch.rs", "if self.steps_left == 0 { Some(just_past(now)) }", "if false { Some(just_past(now)) }"),
    ("deadlines of one client do not matter", "class_queue.rs", "let own = waiting.deadline.map(|_| waiting.urgency())?;", "let own = waiting.deadline.map(|_| waiting.urgency()).filter(|_| false)?;"),
    ("only the first are told news", "queue_updates.rs", "self.round = Some(Round {", "let _ = Some(Round {"),
    ("buckets of keys are forgotten before they are full", "token_bucket.rs", "self.extra().is_empty() && self.level_now(limit, now) >= limit.full()", "self.extra().is_empty()"),
    ("promises of keys are never spent", "keys.rs", "known.bucket.advance(&self.limits[known.limit.index()], now);\n                self.due", "self.due"),
    ("newcomers pass those at a gate", "key_waits.rs", "key_queue.is_some_and(|key_queue| key_queue.goes_before(position, starved(&self.resource, now)))\n                || ", "({ let _ = key_queue; false }) || "),
    ("gates never open again", "key_waits.rs", "return self.queues.keys.set_alarm(key, just_past(latest));", "return;"),
    ("a limit that goes on begins anew", "all_buckets.rs", "Some(before) => self.adaptive(*before).under(now, limit),", "Some(_) => AdaptiveLimit::new(limit, resource.spec().start, now),"),
    ("marks of former limits allow more", "fence.rs", "let trusted_from = MarkNumber(before.latest.0 + 1);", "let trusted_from = before.trusted_from;"),
    ("a limit that continues begins anew", "all_buckets.rs", "Some(before) => self.book(*before).recast(now, limit),", "Some(_) => AdaptiveLimit::new(limit, resource.spec().start, now),"),
    ("checkpoints of former limits allow more", "grant_budget.rs", "        after.doubt();\n", "        after.trusted_from = before.trusted_from;\n"),
    ("permits keep the places of former limits", "change.rs", "self.permits.change(&succession);", ""),
    ("keys keep the places of former limits", "keys.rs", "known.limit = to;", ""),
    ("who waits is charged by former limits", "change.rs", "            if !is_same {\n                ask.call", "            ask.call = None;\n            if false {\n                ask.call"),
    ("a sliding window forgets a tenth early", "algorithm.rs", "length: period + guard", "length: Span::from_nanos(period.nanos() / 10 * 9)"),
    ("calls in flight are over a tenth early", "algorithm.rs", "Hold { length: period, until_settled", "Hold { length: Span::from_nanos(period.nanos() / 10 * 9), until_settled"),
    ("starts up to the very end of windows", "window_start.rs", "window.ends - alignment.guard());", "window.ends);"),
    ("a quota is spent by what starts after its reset", "all_buckets.rs", "bucket.level_without(limit, now, held) <", "bucket.level(limit, now) <"),
    ("what is held for one that waits is spent", "bucket.rs", "self.level_until(limit, now, now) + held", "{\n            let _ = held;\n            self.level_until(limit, now, now)\n        }"),
    ("the limit that moves a start last blocks others, whether it has room or not", "dispatch.rs", "self.ledger.blocking_shared_limit(now, bill, tier, latest).or_else(any).or(offer.limited_by)", "offer.limited_by.or_else(|| self.ledger.blocking_shared_limit(now, bill, tier, latest).or_else(any))"),
    ("a promise under a longer window holds as long as it was told", "counted_bucket.rs", "self.hold(limit, until - self.extension, until, cost.credit);", ""),
    ("what was given back comes first in a snapshot", "snapshot.rs", "State::Returned => Some(Time::ORIGIN),", "State::Returned => Some(Time::NEVER),"),
    ("what is left of a window is wasted", "backfill.rs", "self.start_or_hold(now, slot, tier, StartReason::Backfilled, until - Span::from_nanos(1));", "let _ = (slot, until, Span::ZERO, StartReason::Backfilled);"),
    ("whoever fits later in a window is not told", "dispatch.rs", "Some(limit) if offer.at <= latest =>", "Some(limit) if latest < offer.at || latest == Time::NEVER =>"),
    ("who was passed has not starved", "class_queue.rs", "Some((now, StartReason::InTurn | StartReason::Promoted)) = served", "Some((now, _)) = served"),
    ("who waits for a spent quota stands aside", "dispatch.rs", "if self.turn_away_if_spent(now, slot) {\n            return;\n        }", ""),
    ("shadows see nobody", "scheduler/mod.rs", "self.shadow_limits.note_granted(now, key, limit, &shadow.of_limit(limit), latest);", "let _ = (key, limit, latest);"),
    ("who waits for its key holds the line", "dispatch.rs", "if !self.wait_for_key(now, slot, tier) {", "{"),
    ("binding answers pass those at a gate", "ask.rs", "any(|queue| queue.waiting() > 0)", "any(|queue| !queue.is_empty())"),
    ("a successor's keys are full", "restore.rs", "(None, Some(nanos)) => self.ledger.keys.set_absent_empty(id, then, shifted(then, nanos)),", "(None, Some(_)) => {}"),
    ("far promises on keys are not listed", "checkpoint.rs", "far(now, false).take(MAX_FAR_KEYS + 1)", "far(now, false).take(0)"),
    ("keys that no mark lists are not empty until near starts are past", "mark.rs", "map_or(now + NEAR, |", "map_or(now, |"),
    ("keys that marks list need no budget", "key_budgets.rs", ".covers(credit(resource, charge))", ".covers(Credit::ZERO)"),
    ("budgets of keys are not spent", "key_budgets.rs", ".charge(resource.credit(charge.limit, charge.amount));", ".charge(Credit::ZERO);"),
    ("a mark without the budgets of its keys", "key_budgets.rs", "- budget - late", "- late"),
    ("a mark without what its keys may take of windows", "key_budgets.rs", "credit: budget }]", "credit: Credit::ZERO }]"),
    ("a mark without what keys may take that it does not list", "mark.rs", "has_budget(limit).map(|budgets| budgets.of_others(limit))", "has_budget(limit).map(|_| Credit::ZERO)"),
    ("keys fill before they are used", "key_snapshots.rs", "- budget - late", "- budget"),
    ("keys that are used have no place in marks", "keys.rs", "            self.in_use.insert(slot);", ""),
    ("what keys at rest may have been granted is forgotten", "snapshot.rs", "told(limit, &was, then, spent[id.index()])", "told(limit, &was, then, Credit::ZERO)"),
    ("shadow limits see no call", "shadow.rs", "self.shadow_limits.see(now, granted.key, limit, &bill.only(limit), latest);", "let _ = (now, granted.key, limit, latest);"),
    ("unlisted keys are not empty until near starts are past", "checkpoint.rs", "map_or(now + NEAR, |", "map_or(now, |"),
    ("listed keys need no budget", "key_budgets.rs", ".covers(resource.credit(charge.limit, charge.amount))", ".covers(Credit::ZERO)"),
    ("a checkpoint without the budgets of its keys", "key_snapshots.rs", "- budget - late", "- late"),
    ("a checkpoint without the budgets of keys in windows", "key_snapshots.rs", "credit: budget }]", "credit: Credit::ZERO }]"),
    ("a checkpoint without the budgets of unlisted keys", "checkpoint.rs", "has_budget(limit).map(|budgets| budgets.of_unlisted(limit))", "has_budget(limit).map(|_| Credit::ZERO)"),
    ("the budget of keys at rest is forgotten", "restore.rs", "recorded(limit, &was, then, spent[id.index()])", "recorded(limit, &was, then, Credit::ZERO)"),
    ("a far start is told before the store knows", "ask.rs", "self.promise(now, ask, offer, now + latest);", "self.grant(now, ask, offer, now + latest);"),
    ("unlisted promises refill", "level_snapshots.rs", "bucket.outstanding_after(time) - self.promised.of(limit)", "bucket.pending_debits().at(just_after(time).at)"),
    ("the first of a group applies", "limit_matcher.rs", "group.sort_by_key(|candidate| Reverse(specificity(&candidate.applies)));", ""),
    ("costs are learned backwards", "cost_estimates.rs", "self.above_one += (ratio", "self.above_one -= (ratio"),
    ("a successor learns anew", "restore.rs", "book.resume_learning(then, learned);", "let _ = learned;"),
    ("a checkpoint without lessons", "level_snapshots.rs", "learned: book.estimator.snapshot(now),", "learned: None,"),
    ("lessons of another policy count", "rate_estimator.rs", ".filter(|_| learned.policy == LimitPolicy::of(limit))?;", ".filter(|_| learned.policy == LimitPolicy::of(limit) || true)?;"),
    ("restored lessons have no bounds", "rate_estimator.rs", "loss: learned.loss_ppm.min(max_loss),", "loss: learned.loss_ppm.min(max_loss.max(WHOLE)),"),
    ("lessons do not fade without a scheduler", "rate_estimator.rs", "estimated: ago(learned.estimated_nanos),", "estimated: Time::NEVER,"),
    ("calls that are counted anew take no room", "settle.rs", "self.ledger.renew(now, key, &bill);", "let _ = key;"),
    ("calls that are counted anew give room under marks that never held them", "settle.rs", "self.charge(&bill, now);", "if let Some(budget) = &mut self.grant_budget {\n            budget.release(&self.resource, key, &bill, LimitSet::ALL, true);\n        }"),
    ("deadlines are forgotten", "queues.rs", "self.deadlines.extend(waiting.deadline.map(|deadline| (deadline, waiting.arrival, slot)));", ""),
    ("calls counted anew give room under checkpoints that never held them", "settle.rs", "self.charge(&bill, now);", "if let Some(grant_budget) = &mut self.grant_budget {\n            grant_budget.release(&self.resource, key, &bill, LimitSet::ALL, true);\n        }"),
]
IN_JOBS = [
    ("the last job first", "store.rs", "self.jobs.get_first_raw_message_by_subject(&subject, 1)", "self.jobs.get_last_raw_message_by_subject(&subject)"),
    ("a job that has ended stays", "lane_run.rs", "        self.store().finish(job).await;\n", "        let _ = job;\n"),
    ("attempts are not written down", "lane_run.rs", "        self.note_attempt(LastAttempt { job: job.sequence, attempts: number }).await?;\n        // Writing", "        // Writing"),
    ("a dead letter is thrown away", "lane_run.rs", "        self.hold.during(self.store().add_dead_letter(&self.lane, job.sequence, job.payload.clone(), headers)).await?;\n", "        drop(headers);\n"),
    ("attempts have no end", "retry_policy.rs", "attempts >= self.max_attempts", "attempts > u32::MAX - 1"),
    ("a 429 ends the job", "lane_run.rs", "Ok(outcome) if outcome.is_throttled() => {", "Ok(outcome) if outcome.is_throttled() && number == 0 => {"),
    ("one job by two ids", "queue.rs", ".headers(headers.clone()).message_id(&id);", ".headers(headers.clone());\n        drop(&id);"),
    ("who arrives at a closing lane is not seen", "worker.rs", "Some(_) => drop(store.put_lane_lease(&lane, LaneLease::Go, sequence).await),", "Some(_) => store.forget(sequence).await,"),
    ("a put back job comes at once", "lane_lease.rs", "Receipt::Sleep(Duration::from_millis(put_back.after_ms))", "Receipt::Sleep(Duration::from_millis(put_back.after_ms.min(1)))"),
]
FAULTS = [(CORE, *fault) for fault in IN_CORE] + [(JOBS, *fault) for fault in IN_JOBS]


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


def tests_fall(tests):
    """Whether they do, and the first line that says which."""
    target = COPY.parent / "build"
    command = ["cargo", "test", "--quiet", "--target-dir", str(target), *tests]
    try:
        run = subprocess.run(command, cwd=COPY, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return True, f"no end within {PATIENCE_S} s"
    if "could not compile" in run.stderr:
        sys.exit("it does not even compile:\n" + run.stderr)
    told = [line for line in run.stdout.splitlines() if line.startswith("---- ")]
    return run.returncode != 0, told[0].strip("- ").removesuffix(" stdout") if told else ""


def found(folder, file):
    """The file of this name, in whatever folder it is."""
    [path] = folder.rglob(file)
    return path


def plant(part, name, file, right, wrong):
    """Whether a test fell."""
    folder, tests = part
    path = found(COPY / folder, file)
    text = path.read_text()
    if text.count(right) != 1:
        print(f"{name}: `{right}` stands {text.count(right)} times in {file}", flush=True)
        return False
    try:
        path.write_text(text.replace(right, wrong))
        fell, told = tests_fall(tests)
    finally:
        path.write_text(text)
    print(f"{name}: {'caught by' if fell else 'SURVIVES'} {told}", flush=True)
    return fell


def misplaced():
    """Those that can't be planted, with the reason."""
    for (folder, _), name, file, right, _ in FAULTS:
        count = found(ROOT / folder, file).read_text().count(right)
        if count != 1:
            yield f"{name}: `{right}` stands {count} times in {file}"


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted == "--list":
        return print("\n".join(name for _, name, *_ in FAULTS))
    if wanted in ("-h", "--help"):
        return print(__doc__.strip())
    if wanted == "--check":
        return sys.exit("\n".join(misplaced()) or None)
    chosen = [fault for fault in FAULTS if wanted in fault[1]]
    if not chosen:
        sys.exit(f"no fault has `{wanted}` in its name; see --list")
    copy_tree()
    for _, tests in {part[0]: part for part, *_ in chosen}.values():
        fell, told = tests_fall(tests)
        if fell:
            sys.exit(f"the tests fall without any fault: {told}")
    caught = sum(plant(*fault) for fault in chosen)
    print(f"{caught} of {len(chosen)} faults caught")
    sys.exit(caught != len(chosen))


if __name__ == "__main__":
    main()
