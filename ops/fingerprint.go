package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Fingerprint identifies the registered ops with their slots and attributes. Both ends of a connection compare it, and programs travel only
// between equal registries.
func Fingerprint() string {
	h := sha256.New()
	for _, d := range All() {
		d.describeTo(h)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// describeTo writes what two builds must have alike.
func (d *Def) describeTo(w io.Writer) {
	fmt.Fprintf(w, "%s %d\n", d.Type, d.Class)
	for _, s := range d.Inputs {
		fmt.Fprintf(w, " <%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
	}
	for _, s := range d.Outputs {
		fmt.Fprintf(w, " >%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
	}
	for _, a := range d.Attrs {
		fmt.Fprintf(w, " =%s %T %v\n", a.Name, a.zero(), a.Default)
	}
}

// Hashes returns a hash of each registered op by its type. Two builds whose fingerprints differ exchange them to learn what differs.
func Hashes() map[string]string {
	hashes := map[string]string{}
	for _, d := range All() {
		h := sha256.New()
		d.describeTo(h)
		hashes[d.Type] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	return hashes
}

// Difference says how the ops of another build differ from those of this one, given its Hashes: "it lacks mish, mish_grad; it has other slots or
// attributes of adam". It is empty when they are alike, and when the other build has sent no hashes.
func Difference(theirs map[string]string) string {
	if len(theirs) == 0 {
		return ""
	}
	mine := Hashes()
	var lacks, others, more []string
	for _, op := range slices.Sorted(maps.Keys(mine)) {
		switch hash, ok := theirs[op]; {
		case !ok:
			lacks = append(lacks, op)
		case hash != mine[op]:
			others = append(others, op)
		}
	}
	for _, op := range slices.Sorted(maps.Keys(theirs)) {
		if mine[op] == "" {
			more = append(more, op)
		}
	}
	var parts []string
	for _, list := range []struct {
		says string
		ops  []string
	}{{"it lacks ", lacks}, {"it has other slots or attributes of ", others}, {"only it has ", more}} {
		if len(list.ops) > 0 {
			parts = append(parts, list.says+some(list.ops))
		}
	}
	return strings.Join(parts, "; ")
}

// some joins names, the first of them where there are many. A name from outside is shown without control characters.
func some(names []string) string {
	const most = 8
	shown := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		shown = append(shown, strings.Trim(fmt.Sprintf("%.40q", name), `"`))
	}
	text := strings.Join(shown, ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}
