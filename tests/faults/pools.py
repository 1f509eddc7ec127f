"""The faults in what chooses one of several accounts."""

# name, function, the one place in it (a regular expression), what is planted there
IN_CORE = [
    ("a spent account is chosen", "choose", r" && self\.spent_quota\(self\.now, bill\)\.is_none\(\)", ""),
    ("the first account is chosen", "choose", r"\(offer\.at, has_to_wait\(bill, offer\), self\.reluctance\(bill\)\)", "(offer.at == Time::NEVER, bill.is_empty())"),
    ("accounts with little stock go first", "reluctance", r"Reverse\(stock\)", "Reverse(u128::MAX - stock)"),
    ("accounts take no turns", "commit", r"self\.chosen\[account\.index\(\)\] = start\.serial", "self.chosen[account.index()] = 0"),
    ("one spent account refuses all", "spent_quota", r"\.min_by_key\(", ".max_by_key("),
    ("one held account blocks all", "of", r"bill\.needs\(\)", "any"),
    ("held requests are held again", "first_unheld", r"!is_held\(entry\.slot\)", "true"),
    ("a request waits although an account is free", "may_take_another", r"permit\.bill\.alternatives\.is_some\(\)", "false"),
    ("a granted request keeps all accounts", "start", r"self\.permits\.set_bill\(slot, \(\*bill\)\.clone\(\)\);", ""),
    ("a successor forgets the account", "charges_of", r"self\.resource\.account_charged\(&bill\)", "None"),
    ("a paused account decides whether a request is in time", "earliest_once_settled", r"starts\.min\(\)", "starts.max()"),
    ("nobody waits for settles", "reset_of_spent", r" \+ bucket\.returns\(limit, now\)", ""),
    ("all of a quota's calls are expected to cost nothing", "returns", r"1_000_000 - kept", "1_000_000"),
    ("a call that is never settled is awaited for ever", "advance", r"passed >= SETTLED_WITHIN", "false"),
    ("a settled call is awaited", "settle", r"self\.withdraw\(start, charged\);", ""),
    ("a settle gives back to a quota twice", "end_recorded", r"self\.unsettled\.remove\(id\)", "self.unsettled.get(id).cloned()"),
    ("a settle after a crash gives nothing back", "end_recorded", r"corrected\(&bill, by_unit\(cost\)\)", "corrected(&bill, by_unit(&cost[..0]))"),
    ("a recorded call is in no later record", "unsettled_calls", r"own\.chain\(recorded\)", "own"),
    ("calls that cost what they reserve fill the record", "may_return", r"self\.cost < self\.reserved", "true"),
    ("a settle before its start takes promises of others", "correct", r"else if self\.calls\.contains_key\(&key\)", "else"),
    ("a call that is granted again gives back twice", "commit", r"self\.unsettled\.remove\(&permit\.id\);", ""),
    ("a renewal forgets what a quota was charged", "count_anew", r"bill\.and\(&quotas\)", "bill"),
    ("a crash takes a dollar off a budget", "least_call", r"limit\.is_scarce\(\)", "false"),
    ("the first way is always worth waiting for", "choose", r"offer\.at <= \(since \+ one\.wait\)\.max\(self\.now\)", "true"),
    ("what fits into the rest of a window stands behind held requests", "start_or_hold", r"reason == StartReason::InTurn", "true"),
]
# Faults that only worlds with pools find.
IN_WORLDS = [
    ("an answer names the first account", "answer", r"accounts\[account\.index\(\)\]", "accounts[0 * account.index()]"),
    ("a free call goes to an account that rests", "rests", r"(?s)!bill\.charged\(\).*\)\)", "self.now == Time::NEVER && bill.is_empty()"),
]
IN_POLICY = [
    ("excluded accounts make calls", "bill_in_pool", r"&& !not\.contains\(&account\.name\)", ""),
    ("accounts serve all classes", "bill_in_pool", r"account\.classes\.contains\(class\)", "!account.classes.is_empty()"),
    ("a named limit is of no account", "limit_called", r"self\.limit\(name\)\.or_else\(.*", "self.limit(name)"),
    ("weights of accounts count for nothing", "weighted_count", r"self\.0\.into\(\)", "1"),
    ("any number of accounts", "faults", r"\(\.\.=MAX_ACCOUNTS, Discover::Nothing\)", "(_, Discover::Nothing)"),
    ("accounts are keys", "limit_fault", r"label == ACCOUNT", "label.is_empty()"),
    ("no way is worth waiting for", "bill_of_ways", r"way\.else_after_ms\.span\(\)", "Span::ZERO"),
    ("a way that is wrong is left out", "bill_of_ways", r"Err\(wrong\) => return Err\(wrong\)", "Err(_) => {}"),
]
IN_PROXY = [
    ("a refused account makes the next call", "left_out", r"refused\.keys\(\)\.cloned\(\)\.collect\(\)", "Vec::new()"),
    ("a call reserves the cheapest kind of input", "parts_of_most", r"\.max\(\)\.unwrap_or_default\(\)", ".min().unwrap_or_default()"),
    ("costs are rounded down", "sum", r"picos\.div_ceil\(PICOS\)", "picos / PICOS"),
    ("an answer that breaks off is paid as far as it came", "paid", r"\.filter\(\|_\| is_whole\)", ""),
    ("a call without a price passes the budget", "price", r"price\.map\(Some\)\.map_err\(Failure::NotUnderstood\)", "Ok(price.ok())"),
    ("tokens from a cache cost as others", "paid_tokens", r"\.saturating_sub\(within\)", ""),
    ("calls have the credential of any account", "applied", r"self\.by_account\.get\(account\)", "self.by_account.values().next()"),
]
