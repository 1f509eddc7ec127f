module rampmeter

go 1.19
