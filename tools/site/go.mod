module github.com/edl-go/edl/tools/site

go 1.26.0

require github.com/yuin/goldmark v1.7.13
