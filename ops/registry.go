package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

var registry = map[string]*Def{}

// Register adds an op. It is called from init functions and panics on a duplicate or on a missing part, because a build
// with a broken registry must not start.
func Register(d Def) {
	if d.Type == "" || d.Doc == "" {
		panic("ops: an op without type or documentation: " + d.Type)
	}
	if _, ok := registry[d.Type]; ok {
		panic("ops: registered twice: " + d.Type)
	}
	if d.Infer == nil {
		panic("ops: no shape inference: " + d.Type)
	}
	if d.Bind == nil && d.Class != Feed && d.Class != Read {
		panic("ops: no kernel: " + d.Type)
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(d.Inputs, d.Outputs) {
		if s.Name == "" {
			panic("ops: a slot without name: " + d.Type)
		}
	}
	for _, a := range d.Attrs {
		if a.Name == "" || seen[a.Name] || (a.Default == nil) == (a.Kind == nil) {
			panic(fmt.Sprintf("ops: attribute %q of %s: a unique name and either a default or a kind", a.Name, d.Type))
		}
		seen[a.Name] = true
	}
	registry[d.Type] = &d
}

// Lookup returns the op of a type.
func Lookup(opType string) (*Def, bool) {
	d, ok := registry[opType]
	return d, ok
}

// All returns every registered op, sorted by type.
func All() []*Def {
	defs := make([]*Def, 0, len(registry))
	for _, t := range slices.Sorted(maps.Keys(registry)) {
		defs = append(defs, registry[t])
	}
	return defs
}

// Fingerprint identifies the set of registered ops with their slots and attributes. Both ends of a connection compare it: programs
// travel only between equal registries.
func Fingerprint() string {
	h := sha256.New()
	for _, d := range All() {
		fmt.Fprintf(h, "%s %d\n", d.Type, d.Class)
		for _, s := range d.Inputs {
			fmt.Fprintf(h, " <%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
		}
		for _, s := range d.Outputs {
			fmt.Fprintf(h, " >%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
		}
		for _, a := range d.Attrs {
			fmt.Fprintf(h, " =%s %T %v\n", a.Name, a.zero(), a.Default)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// zero returns a value of the attribute's type.
func (a Attr) zero() any {
	if a.Default != nil {
		return a.Default
	}
	return a.Kind
}
