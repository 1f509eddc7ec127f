//! Messages whose subject names a class have requests of that class only.

scripts! {
    requests_of_one_class_travel_together_and_apart_from_others: "
        0 one-class
        0 ask 1 wait class=bulk
        0 ask 2 wait class=urgent
        0 ask 3 wait
        0 ask 4 wait class=bulk
        0 connect
        > 0 ask 0 of bulk: [1, 4]
        > 0 ask 1 of urgent: 2
        > 0 ask 2: 3
    "

    without_such_subjects_all_classes_travel_together: "
        0 ask 1 wait class=bulk
        0 ask 2 wait class=urgent
        0 ask 3 wait
        0 connect
        > 0 ask 0: [1, 2, 3]
    "

    a_repeated_request_keeps_its_class: "
        0 one-class
        0 connect
        0 ask 1 wait class=bulk
        > 0 ask 0 of bulk: 1*
        0 ask 2 wait class=urgent
        > 0 ask 1 of urgent: 2*
        10 undelivered 0
        > 10..1000 ask 2 of bulk: 1*
        1000 cancel 2
        > 1000 settle 2*
    "
}
