"""One picture a file: data in, axes out. Drawing computes nothing and touches no rank.

    ml.draw.shards(before, after)   who holds what, before and after
    ml.draw.layout(before, after)   which rank holds which positions of which heads, and who sent them
    ml.draw.matmul(x, w, y)         Y = X W, whole or cut by columns or by rows
    ml.draw.pair(x, a, z, b, y)     two products, the first cut by columns and the second by rows
    ml.draw.stages(stages)          what each rank holds from stage to stage of a layer
    ml.draw.mask(positions)         which query sees which key, who computes it, and how much that is
    ml.draw.held(cases)             bytes that each rank holds, by kind
    ml.draw.error(got, want)        where a result is wrong, and by how much
    ml.draw.images(rows)            rows of small pictures that a model made
