"""The faults that remove bounds, or move them far away: each names the constant that it removes."""

# name, function, the one place in it (a regular expression), what is planted there
IN_CORE = [
    ("unused slices stay apart", "take_back", r"self\.unused\.remove\(&slice\.begin\)\.unwrap_or\(slice\.begin\)", "slice.begin"),
    ("a slice is not joined with the next one", "take_back", r"if \*next == slice\.end", "if *next == slice.end && false"),
    ("any number of learned costs is kept", "learn", r"self\.0\.len\(\) < MAX_FACTORS", "true"),
    ("one call teaches any cost", "learn", r"\.clamp\(MIN_FACTOR, MAX_FACTOR\)", ".max(MIN_FACTOR)"),
    ("one call proves a large stock", "is_proven", r"cost\.times\(MAX_CALLS_BEYOND\)", "cost.times(MAX_CALLS_BEYOND * 1000)"),
    ("freezes of keys fill a record", "freeze_snapshots", r"fitting\(FREEZES_PART", "fitting(1"),
    ("one key is examined for a checkpoint", "key_budgets", r"MAX_EXAMINED", "1"),
    ("a far promise has any number of debits", "steps", r"\.min\(MAX_DEBIT_STEPS\)", ""),
    ("debits are inherited without end", "merged", r"saturating_sub\(MAX_DEBITS\)", "saturating_sub(usize::MAX)"),
    ("a checkpoint lists all keys with far promises", "fenced_keys", r"fitting\(1, MAX_FAR_KEYS", "fitting(1, usize::MAX"),
    ("keys at rest are never written to pages", "write_pages", r"<= MAX_UNPAGED_KEYS", "<= usize::MAX"),
    ("a stop lists all keys", "keys_at_stop", r"fitting\(1, MAX_KEYS_AT_STOP", "fitting(1, usize::MAX"),
    ("any number of checkpoints is open", "may_open", r" && self\.open\.len\(\) < MAX_OPEN", ""),
    ("one event thaws all keys", "thaw", r"\.take\(MAX_THAWED\)", ""),
    ("any number of sums by class is kept", "row", r"has_room = self\.rows\.len\(\) < MAX_ROWS", "has_room = true"),
    ("one window is walked", "paid_by_windows", r"0\.\.MAX_WALKED_WINDOWS", "0..MAX_WALKED_WINDOWS - MAX_WALKED_WINDOWS"),
    ("peaks are kept without end", "note", r"MAX_PEAKS", "usize::MAX"),
    ("a clock errs by any time", "of", r"MAX_CLOCK_SKEW\.nanos\(\)\.min\((.*) / MAX_CLOCK_SKEW_PART\)", r"\1"),
    ("one event sends all updates", "due_updates", r"UPDATED_BY_EVENT", "usize::MAX"),
    ("any number of requests is tried for backfill", "candidates", r"MAX_CANDIDATES", "usize::MAX"),
    ("a dispatch has no end", "begin", r"= MAX_STEPS", "= usize::MAX"),
    ("a step walks along all", "step", r"from\.\.from \+ MAX_WALKED", "from..usize::MAX"),
    ("a step ends all waits", "step", r"== MAX_MATCHES", "== usize::MAX"),
    ("all that wait are listed ahead of one", "ahead_of", r"MAX_LISTED\.min\((.*)\);", r"\1;"),
    ("all that wait are compared with a question", "in_line", r"front\(classes, MAX_SCANNED\)", "front(classes, usize::MAX)"),
    ("all clients are listed", "client_shares", r"ranked\.truncate\(MAX_CLIENTS_LISTED\);", ""),
    ("all waiting clients are looked at", "client_shares", r"\.take\(MAX_WAITING_CLIENTS\)", ".take(usize::MAX)"),
    ("a record has all marks of a bucket", "marks_for_successor", r"saturating_sub\(MAX_RECORDED\)", "saturating_sub(usize::MAX)"),
]

IN_POLICY = [
    ("a key is of any number of labels", "key_rules", r"key\.len\(\) <= MAX_KEY_LABELS", "key.len() < usize::MAX"),
    ("a reservation is of any time", "faults", r"MIN_RESERVATION\.\.=MAX_RESERVATION", "MIN_RESERVATION..=MAX_PERIOD"),
]
IN_DISCOVERY = [
    ("a discovered limit has any number of routes", "take_reading", r"< MAX_ROUTES", "< usize::MAX"),
    ("routes of discovered limits fill the record", "take_reading", r"< ROUTES_BYTES", "< usize::MAX"),
    ("a discovered cap has no end", "put_cap", r"calls\.min\(MAX_IN_FLIGHT\)", "calls.max(MAX_IN_FLIGHT)"),
    ("a slowdown takes any number of calls to see", "note", r"\.clamp\(MIN_CALLS, MAX_CALLS\)", ".max(MIN_CALLS)"),
]
