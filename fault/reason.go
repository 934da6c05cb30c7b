package fault

import "strconv"

// A Reason is what several faults of a list say alike, at several places.
type Reason struct {
	First *Fault
	Count int // of faults, 1 or more
}

// Reasons groups the faults that differ at most in their place, line and variable, in the order of the first of each group.
func (l List) Reasons() []Reason {
	type key struct {
		kind                Kind
		op, got, want, hint string
		cause               string
	}
	at := map[key]int{}
	var reasons []Reason
	for _, f := range l {
		k := key{f.Kind, f.Op, f.Got, f.Want, f.Hint, ""}
		if f.Err != nil {
			k.cause = f.Err.Error()
		}
		i, met := at[k]
		if !met {
			i = len(reasons)
			at[k] = i
			reasons = append(reasons, Reason{First: f})
		}
		reasons[i].Count++
	}
	return reasons
}

// String is the message of the first fault, which names its place. If there are more, their number comes first.
func (r Reason) String() string {
	if r.Count == 1 {
		return r.First.Error()
	}
	return strconv.Itoa(r.Count) + " times, first at " + r.First.Error()
}
