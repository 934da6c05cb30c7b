package kernel

// EditDistance returns how many elements must be inserted, deleted or replaced to make one sequence of the other (Levenshtein 1966). row is scratch, one element
// longer than to.
func EditDistance(from, to, row []int64) int64 {
	for j := range row {
		row[j] = int64(j)
	}
	for i, x := range from {
		diagonal := row[0] // the distance of the elements before x and of those before to[j]
		row[0] = int64(i) + 1
		for j, y := range to {
			replaced := diagonal
			if x != y {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(to)]
}
