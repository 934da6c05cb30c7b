package transpiler

import "testing"

func TestMisplaced(t *testing.T) {
	a, b := Pass{Name: "a"}, Pass{Name: "b", After: []string{"a"}}
	for want, table := range map[string][]Pass{"": {a, b}, "b": {b, a}, "a": {a, a}} {
		if got := misplaced(table); got != want {
			t.Errorf("%v: misplaced %q, want %q", table, got, want)
		}
	}
	for i := range passes {
		for j := range i {
			swapped := Passes()
			swapped[i], swapped[j] = swapped[j], swapped[i]
			for _, name := range passes[i].After {
				if name == passes[j].Name && misplaced(swapped) == "" {
					t.Errorf("%s may run before %s, which it needs", passes[i].Name, name)
				}
			}
		}
	}
}
