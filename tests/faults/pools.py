"""The faults in what chooses one of several accounts."""

# name, function, the one place in it (a regular expression), what is planted there
IN_CORE = [
    ("a spent account is chosen", "choose", r" && self\.spent_quota\(self\.now, bill\)\.is_none\(\)", ""),
    ("the first account is chosen", "choose", r"\(offer\.at, has_to_wait\(bill, offer\), self\.reluctance\(bill\)\)", "(offer.at == Time::NEVER, bill.is_empty())"),
    ("accounts with little stock go first", "reluctance", r"Reverse\(stock\)", "Reverse(u128::MAX - stock)"),
    ("accounts take no turns", "commit", r"self\.chosen\[account\.index\(\)\] = start\.serial", "self.chosen[account.index()] = 0"),
    ("one spent account refuses all", "spent_quota", r"spent\.min\(\)\?\?", "spent.max()??"),
    ("one held account blocks all", "of", r"bill\.needs\(\)", "any"),
    ("held requests are held again", "first_unheld", r"!is_held\(entry\.slot\)", "true"),
    ("a request waits although an account is free", "may_take_another", r"permit\.bill\.alternatives\.is_some\(\)", "false"),
    ("a granted request keeps all accounts", "start", r"self\.permits\.set_bill\(slot, \(\*bill\)\.clone\(\)\);", ""),
    ("a successor forgets the account", "charges_of", r"self\.resource\.account_charged\(&bill\)", "None"),
    ("a paused account decides whether a request is in time", "earliest_once_settled", r"starts\.min\(\)", "starts.max()"),
    ("what fits into the rest of a window stands behind held requests", "start_or_hold", r"reason == StartReason::InTurn", "true"),
]
IN_POLICY = [
    ("excluded accounts make calls", "bill_in_pool", r"&& !not\.contains\(&account\.name\)", ""),
    ("accounts serve all classes", "bill_in_pool", r"account\.classes\.contains\(class\)", "!account.classes.is_empty()"),
    ("a named limit is of no account", "limit_called", r"self\.limit\(name\)\.or_else\(.*", "self.limit(name)"),
    ("weights of accounts count for nothing", "weighted_count", r"self\.0\.into\(\)", "1"),
    ("any number of accounts", "faults", r"\(\.\.=MAX_ACCOUNTS, Discover::Nothing\)", "(_, Discover::Nothing)"),
    ("limits of an account with keys", "limit_fault", r"limit\.applies\.is_keyed\(\)", "false"),
]
IN_PROXY = [
    ("a refused account makes the next call", "left_out", r"refused\.keys\(\)\.cloned\(\)\.collect\(\)", "Vec::new()"),
    ("calls have the credential of any account", "applied", r"self\.by_account\.get\(account\)", "self.by_account.values().next()"),
]
