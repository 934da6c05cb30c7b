package program

import "github.com/edl-go/edl/tensor"

// Limits bounds what Decode accepts. The counts are over the whole file, the startup program included, and are checked against the
// raw bytes before anything is allocated for them. A zero field means its default.
type Limits struct {
	Bytes     int64 // length of the file
	Blocks    int64
	Vars      int64
	Ops       int64
	Attrs     int64
	Arguments int64 // slots of ops and variable names in them
	Elements  int64 // elements of lists in attributes, and every other repeated value
	String    int64 // bytes of one name or string
	Rank      int64 // dims of one variable
	Depth     int64 // messages and groups within each other
}

// DefaultLimits returns limits that no program made by people or by the transpiler comes near to.
func DefaultLimits() Limits {
	return Limits{
		Bytes:     512 << 20,
		Blocks:    10_000,
		Vars:      1_000_000,
		Ops:       1_000_000,
		Attrs:     10_000_000,
		Arguments: 10_000_000,
		Elements:  100_000_000,
		String:    16 << 20,
		Rank:      tensor.MaxRank,
		Depth:     32,
	}
}

func (l Limits) withDefaults() Limits {
	defaults := DefaultLimits()
	for field, value := range map[*int64]int64{
		&l.Bytes: defaults.Bytes, &l.Blocks: defaults.Blocks, &l.Vars: defaults.Vars, &l.Ops: defaults.Ops, &l.Attrs: defaults.Attrs,
		&l.Arguments: defaults.Arguments, &l.Elements: defaults.Elements, &l.String: defaults.String, &l.Rank: defaults.Rank, &l.Depth: defaults.Depth,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return l
}
