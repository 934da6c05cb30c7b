package program

import "slices"

// SetAttr sets an attribute.
func (op *Op) SetAttr(name string, value Attr) {
	if op.Attrs == nil {
		op.Attrs = map[string]Attr{}
	}
	op.Attrs[name] = value
}

// Int returns an integer attribute. Writers of different Fluid versions disagree on the type, so INT, LONG and BOOLEAN are
// all taken, and so is a list of one.
func (op *Op) Int(name string) (int64, bool) {
	switch v := op.Attrs[name].(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case []int32:
		if len(v) == 1 {
			return int64(v[0]), true
		}
	case []int64:
		if len(v) == 1 {
			return v[0], true
		}
	}
	return 0, false
}

// Ints returns a list of integers: INTS, LONGS, or a single INT or LONG.
func (op *Op) Ints(name string) ([]int64, bool) {
	switch v := op.Attrs[name].(type) {
	case []int32:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out, true
	case []int64:
		return slices.Clone(v), true
	case int32:
		return []int64{int64(v)}, true
	case int64:
		return []int64{v}, true
	}
	return nil, false
}

// Float returns a number: FLOAT, FLOAT64, INT or LONG.
func (op *Op) Float(name string) (float64, bool) {
	switch v := op.Attrs[name].(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	}
	return 0, false
}

// Floats returns a list of numbers: FLOATS or FLOAT64S.
func (op *Op) Floats(name string) ([]float64, bool) {
	switch v := op.Attrs[name].(type) {
	case []float32:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out, true
	case []float64:
		return slices.Clone(v), true
	}
	return nil, false
}

// Bool returns a truth value: BOOLEAN, or INT and LONG where not zero means true.
func (op *Op) Bool(name string) (value, ok bool) {
	switch v := op.Attrs[name].(type) {
	case bool:
		return v, true
	case int32:
		return v != 0, true
	case int64:
		return v != 0, true
	}
	return false, false
}

// Str returns a STRING attribute.
func (op *Op) Str(name string) (string, bool) {
	v, ok := op.Attrs[name].(string)
	return v, ok
}

// Strs returns a STRINGS attribute. The caller must not change it.
func (op *Op) Strs(name string) ([]string, bool) {
	v, ok := op.Attrs[name].([]string)
	return v, ok
}

// SubBlock returns a BLOCK attribute.
func (op *Op) SubBlock(name string) (BlockIndex, bool) {
	v, ok := op.Attrs[name].(BlockIndex)
	return v, ok
}

// SubBlocks returns every block that the op refers to through BLOCK and BLOCKS attributes, in the order of attribute names.
func (op *Op) SubBlocks() []BlockIndex {
	var names []string
	for name, a := range op.Attrs {
		switch a.(type) {
		case BlockIndex, []BlockIndex:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []BlockIndex
	for _, name := range names {
		switch v := op.Attrs[name].(type) {
		case BlockIndex:
			all = append(all, v)
		case []BlockIndex:
			all = append(all, v...)
		}
	}
	return all
}
