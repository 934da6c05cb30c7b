package fault

// DidYouMean is the hint that names what a wrong name probably stands for: the candidate with the fewest edits to it, the first of several. It says
// nothing if none is close.
func DidYouMean(name string, candidates []string) Field {
	if meant := closest(name, candidates); meant != "" {
		return Hint("did you mean " + Quote(meant) + "?")
	}
	return Hint("")
}

// closest returns the candidate with the fewest edits to name, the first of several. It returns "" if none is close enough.
func closest(name string, candidates []string) string {
	if name == "" {
		return ""
	}
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := edits(name, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
