package ops

import (
	"math/bits"
	"time"
)

// HourOf is the hour in which a round is trained, for ops that count days (evict_unseen_days): hours since 1970, by the clock of this process. With dayRounds
// above 0 a day takes so many rounds, and the clock is not read: the hour of a round is the same in each run.
//
// On a cluster in sync mode an hour is part of what a round is made of. Each trainer reads it once in a step, and declares it to every server with its
// contribution. The hour of the round is the earliest that is declared, so one clock that is fast changes nothing. It travels wherever declarations do: to
// coordinators, which give servers the round that they lack, and to standbys. So all servers of a round have one hour, whatever happens to them. In async mode the
// server reads it for each update, and tells its standby. An hour that is earlier than that of a round before is passed over: what a table has seen is part of its
// state, and so of checkpoints.
func HourOf(round uint64, dayRounds int64) int64 {
	if dayRounds <= 0 {
		return time.Now().Unix() / 3600
	}
	days, rest := round/uint64(dayRounds), round%uint64(dayRounds)
	high, low := bits.Mul64(rest, 24)
	hours, _ := bits.Div64(high, low, uint64(dayRounds))
	return int64(days%(1<<40)*24 + hours)
}
