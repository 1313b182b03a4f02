package bolt

func childMain() bool { return false }
