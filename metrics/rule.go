package metrics

import (
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// ruleForms is what ParseRule takes.
const ruleForms = `"METRIC not better for N", "METRIC above X" or "METRIC below X", such as "auc not better for 3"`

// A Rule says after which evaluation training ends. It is one of
//
//	METRIC not better for N    N evaluations in turn have not been better than the best one before them
//	METRIC above X             the metric is above the number X
//	METRIC below X             it is below X
type Rule struct {
	Metric string // as Result.Name has it
	Turns  int    // N; 0: the rule has the form above or below
	Above  bool
	Limit  float64 // X
}

// ParseRule reads a rule.
func ParseRule(text string) (Rule, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 5 && words[1] == "not" && words[2] == "better" && words[3] == "for":
		n, err := strconv.Atoi(words[4])
		if err != nil || n < 1 {
			return Rule{}, badRule(text, "N is a whole number from 1")
		}
		return Rule{Metric: words[0], Turns: n}, nil
	case len(words) == 3 && (words[1] == "above" || words[1] == "below"):
		x, err := strconv.ParseFloat(words[2], 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return Rule{}, badRule(text, "X is a number")
		}
		return Rule{Metric: words[0], Above: words[1] == "above", Limit: x}, nil
	}
	return Rule{}, badRule(text, "")
}

// String returns the rule as ParseRule takes it.
func (r Rule) String() string {
	switch {
	case r.Turns > 0:
		return r.Metric + " not better for " + strconv.Itoa(r.Turns)
	case r.Above:
		return r.Metric + " above " + strconv.FormatFloat(r.Limit, 'g', -1, 64)
	}
	return r.Metric + " below " + strconv.FormatFloat(r.Limit, 'g', -1, 64)
}

func badRule(text, hint string) error {
	return fault.E(fault.InvalidArgument, fault.Got(fault.Quote(text)), fault.Want(ruleForms), fault.Hint(hint))
}

// A Trend is what a rule has seen. The zero Trend has seen nothing. Only evaluations that began with the same parameters belong to one Trend.
type Trend struct {
	seen  bool
	best  float64
	turns int // evaluations since the best one
}

// Step is the trend after one more evaluation, and whether training ends with it. A metric that is NaN is never better and never ends training by a limit.
func (r Rule) Step(now Trend, value Result) (next Trend, ends bool) {
	if r.Turns == 0 {
		return now, r.Above && value.Value > r.Limit || !r.Above && value.Value < r.Limit
	}
	if !now.seen || Better(value.Kind, value.Value, now.best) {
		return Trend{seen: true, best: value.Value}, false
	}
	now.turns++
	return now, now.turns >= r.Turns
}
