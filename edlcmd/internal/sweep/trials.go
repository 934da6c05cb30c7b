package sweep

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/edl-go/edl/fault"
)

// maxTrials bounds the trials of a sweep.
const maxTrials = 10_000

// A Trial is one choice of values: the text of each parameter, by its name.
type Trial map[string]string

// List returns what the sweep tries, in an order that depends on the spec alone. In a grid the values of the last parameter, by name, change fastest. A random
// search draws each parameter of trial after trial from its seed, and leaves out what it has drawn before. So more trials begin with those of fewer.
func (s *Spec) List() ([]Trial, error) {
	names := slices.Sorted(maps.Keys(s.Parameters))
	if s.Search == "random" {
		return s.draw(names)
	}
	all := []Trial{{}}
	for _, name := range names {
		var longer []Trial
		values := s.Parameters[name].Values
		if len(all)*len(values) > maxTrials {
			return nil, fault.E(fault.TooLarge, fault.At("parameters"), fault.Gotf("a grid of more than %d trials", maxTrials), fault.Want("fewer values, or search: random"))
		}
		for _, t := range all {
			for _, value := range values {
				next := maps.Clone(t)
				next[name] = value
				longer = append(longer, next)
			}
		}
		all = longer
	}
	return all, nil
}

// drawsPerTrial bounds how often a trial is drawn that was there before.
const drawsPerTrial = 100

func (s *Spec) draw(names []string) ([]Trial, error) {
	var all []Trial
	seen := map[string]bool{}
	for i := range uint64(s.Trials * drawsPerTrial) {
		source := rand.NewPCG(s.Seed, i)
		t, key := Trial{}, ""
		for _, name := range names {
			t[name] = s.Parameters[name].draw(name, float64(source.Uint64()>>11)/(1<<53))
			key += t[name] + "\n"
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if all = append(all, t); len(all) == s.Trials {
			return all, nil
		}
	}
	return nil, fault.E(fault.InvalidArgument, fault.At("trials"), fault.Gotf("%d trials of parameters that have %d different choices", s.Trials, len(all)), fault.Want("fewer trials, or search: grid"))
}

// draw returns the value at u, from 0 to less than 1.
func (p Parameter) draw(name string, u float64) string {
	if p.Range == nil {
		return p.Values[int(u*float64(len(p.Values)))]
	}
	from, to := p.Range.From, p.Range.To
	value := from + u*(to-from)
	switch {
	case p.Range.Scale == "log":
		value = from * math.Pow(to/from, u)
	case name != "learning_rate":
		value = math.Floor(from + u*(to-from+1)) // each whole number is as probable as any other
	}
	return p.text(name, min(max(value, from), to))
}

// text is a number as a flag takes it. Rates have 4 digits: so each is the number that a user reads, and does not depend on how a machine computes powers.
func (p Parameter) text(name string, value float64) string {
	if name == "learning_rate" {
		return strconv.FormatFloat(value, 'g', 4, 64)
	}
	return strconv.FormatFloat(math.Round(value), 'f', 0, 64)
}
