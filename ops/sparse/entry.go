package sparse

import (
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A rule says when a key of a table gets a row, and when it goes. It counts the rounds that train the table, which are the steps of one machine. A round sees a key
// when its gradient has it. All that a rule does follows from the keys of rounds, from their numbers, and from the seed. So it does not depend on how the table is
// cut, nor on the order of keys within a round.
//
// The table keeps the number of the round (Rounds), for each key the time span that has seen it last, and for each candidate how many rounds have seen it
// (Counts). A time span is at most a 24th of evict_unseen, and there are 63 names of them. With evict_unseen_days time spans are of hours (days.go).
type rule struct {
	count       int64   // rounds that see a key before the last of them gives it a row
	probability float64 // with which a round that sees a key gives it a row
	unseen      int64   // rounds that may not see a key before it goes; 0: any number
	days        int64   // days that may not see a key before it goes; 0: any number
	evict       bool    // keys go from regions that are nearly full
}

// noEntry is the attribute entry of a table that takes all keys.
const noEntry = "none"

// sweepRounds is in how many rounds all regions are looked through for keys that go, unless these go sooner.
const sweepRounds = 64

// ruleOf reads the attributes of a rule. The forms of entry are those of Paddle 2.
func ruleOf(a interface {
	opkit.Attributed
	Str(string) string
	Int(string) int64
}) (rule, error) {
	r := rule{count: 1, probability: 1, unseen: a.Int("evict_unseen"), days: a.Int("evict_unseen_days"), evict: a.Str("at_bound") == "evict"}
	if r.unseen < 0 {
		return r, opkit.BadAttr(a, "evict_unseen", "at least 0 rounds")
	}
	if r.days < 0 || r.days > math.MaxInt32 || r.days > 0 && r.unseen > 0 {
		return r, opkit.BadAttr(a, "evict_unseen_days", "0 to %d days, and 0 with evict_unseen", math.MaxInt32)
	}
	name, number, _ := strings.Cut(a.Str("entry"), ":")
	var err error
	switch {
	case name == noEntry && number == "":
		return r, nil
	case name == "count_filter_entry":
		r.count, err = strconv.ParseInt(number, 10, 64)
	case name == "probability_entry":
		r.probability, err = strconv.ParseFloat(number, 64)
	default:
		name = ""
	}
	if name == "" || err != nil || r.count < 1 || r.count > math.MaxInt32 || !(r.probability > 0 && r.probability <= 1) {
		return r, opkit.BadAttr(a, "entry", "none, count_filter_entry:N with a count from 1 to %d, or probability_entry:P with a number above 0 and at most 1", math.MaxInt32)
	}
	return r, nil
}

// counts reports whether a table has candidates.
func (r rule) counts() bool { return r.count > 1 }

// remembers reports whether a table counts rounds.
func (r rule) remembers() bool {
	return r.counts() || r.probability < 1 || r.unseen > 0 || r.days > 0 || r.evict
}

// span is how many rounds a time span has.
func (r rule) span() int64 {
	if r.unseen > 0 {
		return (r.unseen + 23) / 24
	}
	return sweepRounds
}

// stamp is the time span of a round.
func (r rule) stamp(round int64) int64 {
	return stampOf(int64(uint64(round) / uint64(r.span())))
}

// stampOf is the name of a time span.
func stampOf(span int64) int64 { return int64(uint64(span)%kernel.Stamps) + 1 }

// age is the age in time spans of keys that go: they were unseen for at least r.unseen rounds, or r.days days.
func (r rule) age() int64 {
	switch {
	case r.days > 0:
		return daySpans
	case r.unseen == 0:
		return math.MaxInt64
	}
	return 1 + (r.unseen-1+r.span()-1)/r.span()
}

// due reports whether a round looks through a region.
func (r rule) due(round int64, region int) bool {
	period := uint64(sweepRounds)
	if r.unseen > 0 {
		period = min(period, uint64(r.unseen))
	}
	return (r.unseen > 0 || r.evict) && uint64(region)%period == uint64(round)%period
}

// ruleSlots are the variables of a table that a rule needs.
var ruleSlots = []ops.Slot{
	{Name: "Counts", Doc: "int32 [rows]: for a candidate, how many rounds have seen it; with a count_filter_entry", Dispensable: true},
	{Name: "Rounds", Doc: "int64 [1]: rounds so far; if keys may go, and with an entry", Dispensable: true}, hoursSlot}

// checkRule checks them.
func checkRule(s *ops.Shapes, table ops.Meta) (rule, error) {
	r, err := ruleOf(s)
	if err != nil {
		return r, err
	}
	if has := s.Has("Counts"); has != r.counts() || has && (s.In("Counts").DType != tensor.Int32 || len(s.In("Counts").Dims) != 1 || !opkit.Agree(s.In("Counts").Dims[0], table.Dims[0])) {
		return r, s.Errorf("Counts", "int32 [%d] with a count_filter_entry, and nothing without", table.Dims[0])
	}
	if has := s.Has("Rounds"); has != r.remembers() || has && (s.In("Rounds").DType != tensor.Int64 || ops.Product(s.In("Rounds").Dims) != 1) {
		return r, s.Errorf("Rounds", "int64 [1] with an entry, evict_unseen, evict_unseen_days or at_bound = evict, and nothing without")
	}
	if has := s.Has("Hours"); has != (r.days > 0) || has && (s.In("Hours").DType != tensor.Int64 || ops.Product(s.In("Hours").Dims) != 2) {
		return r, s.Errorf("Hours", "int64 [2] with evict_unseen_days, and nothing without")
	}
	return r, nil
}
