package program

import (
	"fmt"
	"strconv"
	"strings"
)

// What Text shows of long lists and strings when it is not asked for all.
const (
	maxListShown   = 8
	maxStringShown = 80
)

// cut shortens a list and says by how much.
func cut(items []string, full bool) []string {
	if full || len(items) <= maxListShown {
		return items
	}
	return append(items[:maxListShown:maxListShown], fmt.Sprintf("... %d more", len(items)-maxListShown))
}

// name shows a name as it is when it consists of what names are commonly made of, else quoted.
func (t *texter) name(s string) string {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("_.@/-:", rune(c)) {
			return t.quote(s)
		}
	}
	if s == "" || len(s) > maxStringShown && !t.full {
		return t.quote(s)
	}
	return s
}

// plain is name for text that may hold spaces, parentheses and the like.
func (t *texter) plain(s string) string {
	if quoted := t.quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

func (t *texter) quote(s string) string {
	if t.full || len(s) <= maxStringShown {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(s[:maxStringShown]) + "..."
}

func (t *texter) attr(a Attr) string {
	switch v := a.(type) {
	case string:
		return t.quote(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case BlockIndex:
		return fmt.Sprintf("block %d", int32(v))
	case []string:
		return list(t, v, t.quote)
	case []float32:
		return list(t, v, func(x float32) string { return t.attr(x) })
	case []int32:
		return list(t, v, show)
	case []int64:
		return list(t, v, show)
	case []float64:
		return list(t, v, show)
	case []bool:
		return list(t, v, show)
	case []BlockIndex:
		return list(t, v, func(x BlockIndex) string { return t.attr(x) })
	case Opaque:
		return fmt.Sprintf("%s of %d bytes", AttrTypeName(v), len(v.raw))
	case int32, int64, bool, float64:
		return fmt.Sprint(v)
	}
	return AttrTypeName(a)
}

func show[T any](x T) string { return fmt.Sprint(x) }

// list shows no more elements than are wanted, and formats no others.
func list[T any](t *texter, values []T, element func(T) string) string {
	n := len(values)
	if !t.full {
		n = min(n, maxListShown)
	}
	shown := make([]string, n, n+1)
	for i := range n {
		shown[i] = element(values[i])
	}
	if n < len(values) {
		shown = append(shown, fmt.Sprintf("... %d more", len(values)-n))
	}
	return "[" + strings.Join(shown, ", ") + "]"
}
