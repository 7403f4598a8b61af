"""Functions of other engines that ELF-QL does not have, each with a replacement for the error's hint.

Names are lower case. A test checks that no name in this table is a function of ELF-QL.
"""

from __future__ import annotations

CLOCK_HINT = "An answer must not depend on when it is computed: use the event time, ts, or window_end."

LAMBDA_HINT = "Write transform(x, e -> e + 1), filter(x, e -> e > 1), exists(x, e -> e > 1) or forall(...)."

_CHANCE = "An answer must be the same on every agent and at every attempt: use a field of the record."
_JSON = "Write get_json_object(text, '$.a') or from_json(text, 'STRUCT<a: BIGINT>')."
_STRUCT = "Write struct(x AS a, y AS b), or named_struct('a', x, 'b', y)."
_INTERVAL = "Write INTERVAL '30' SECOND, or make_dt_interval(days, hours, minutes, seconds)."
_TIME = "ELF-QL has no type TIME: write hour(ts) and minute(ts), or date_format(ts, 'HH:mm:ss')."
_ZONE = (
    "ELF-QL has one TIMESTAMP, an instant in UTC: write to_timestamp(x[, pattern]) or make_timestamp(...)."
)
_NO_TIME = "Write to_timestamp(x[, pattern]) or to_date(x[, pattern]): text that is not a time gives NULL."
_VARIANT = f"ELF-QL has no type VARIANT. {_JSON}"
_CSV = "Write split(text, ','); a whole log is read by --format csv."
_XML = "Write regexp_extract(text, '<a>([^<]*)</a>', 1)."
_BINARY = "Write unhex(x), unbase64(x), or CAST(x AS BINARY) for the bytes of a text in UTF-8."
_SESSION = "A query has no user, catalog or session: write the value."
_FILE = "Every record has `_source`, its file, and `_host`, its agent."
_FAILS = "A query does not fail because of a value: filter with WHERE, or count with count_if(condition)."
_JAVA = (
    "ELF-QL calls no Java: declare WITH FUNCTION name(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$ ... $$."
)
_SECRET = "Write sha2(x, 256): equal values stay equal."
_MOMENTS = "Write stddev(x), variance(x), or avg of an expression."
_LINE = "Write corr(y, x), covar_pop(y, x), var_pop(x) or avg(x), of which the line through x and y is made."
_DISTINCT = "Write count(DISTINCT x), approx_count_distinct(x), or the sketches of theta_sketch_agg(x)."
_KLL = "Write kll_sketch_agg_double(x) and kll_sketch_get_quantile_double(sketch, 0.99)."
_TOP = "Write approx_top_k(x, k), approx_count_distinct(x) or approx_percentile(x, 0.99)."
_PLACE = "ELF-QL has no geometry: keep longitude and latitude as numbers of their own."
_VECTOR = "Write explode(x) in a subquery, and sum or avg over its rows."
_COLLATE = "Text is compared by its bytes: write lower(x) to leave out the case."
_DIFF = "Write end - start, or datediff(end, start) for days."
_ADD = "Write ts + INTERVAL '1' DAY, or add_months(ts, n)."
_HOP = "Write HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND): slide, then size."
_TUMBLE = "Write TUMBLE(ts, INTERVAL '30' SECOND)."

_ROUND = "Write CAST(x * 100 AS BIGINT) / 100, or floor(x) or ceil(x)."
_CONVERT = "Write CAST(x AS BIGINT), CAST(x AS STRING) or CAST(x AS TIMESTAMP): what does not fit gives NULL."
_MAP = "Write map('a', x, 'b', y), or a column for each part; results are written as JSON by -o json."
_IF_AGGREGATE = "Write sum(x) FILTER (WHERE condition), or count_if(condition)."
_COUNTER = "Write max(x) - min(x), or lag(x) OVER (PARTITION BY k ORDER BY ts)."
_ENGINE = "A query has no catalog and no session: write SELECT ... FROM stream."

_GROUPS: tuple[tuple[str, str], ...] = (
    (CLOCK_HINT, "now curdate curtime getdate sysdate today"),
    (_CHANCE, "rand random randn randstr uniform uuid shuffle monotonically_increasing_id"),
    (LAMBDA_HINT, "any_match all_match none_match list_transform list_filter"),
    (_ROUND, "truncate round_down dround"),
    (_CONVERT, "convert try_convert try_parse parse safe_cast to_decimal tostring toint32 toint16 touint64"),
    (_CONVERT, "todate todatetime to_datetime todouble cast_to_type"),
    (_MAP, "object_construct object_agg jsonb_build_object json_build_object json_object json_object_agg"),
    (_MAP, "row_to_json jsonb_object_agg jsonb_agg json_agg json_group_array json_group_object"),
    (_MAP, "map_from_items map_agg array_construct struct_extract"),
    (_IF_AGGREGATE, "sumif countif avgif minif maxif uniqif sum_if avg_if"),
    ("Write bool_and(x) or bool_or(x).", "logical_and logical_or booland_agg boolor_agg"),
    (_COUNTER, "rate irate increase delta deriv"),
    ("Write x / nullif(y, 0), or try_divide(x, y).", "safe_divide div0 div0null safe_multiply safe_add"),
    ("Write date_trunc('MINUTE', ts).", "timestamp_trunc datetime_trunc time_slice date_floor tostartofweek"),
    ("Write date_trunc('MINUTE', ts).", "tostartofmonth tostartofyear tostartofsecond tostartoffiveminutes"),
    ("Write from_utc_timestamp(ts, 'Europe/Berlin') or convert_timezone(a, b, ts).", "timezone totimezone"),
    ("Write make_date(y, m, d) or make_timestamp(y, m, d, h, mi, s).", "datefromparts date_from_parts"),
    ("Write make_date(y, m, d) or make_timestamp(y, m, d, h, mi, s).", "timestamp_from_parts makedate"),
    ("Write unix_seconds(ts), unix_millis(ts) or unix_micros(ts).", "tounixtimestamp unixepoch"),
    ("Write size(x).", "array_length list_length arraylength len_array json_length jsonb_array_length"),
    ("Write array_contains(x, y).", "list_contains list_has array_has has hasany hasall json_contains"),
    ("Write array_position(x, y).", "list_position list_indexof array_indexof"),
    ("Write array_max(x), array_min(x), or explode(x) in a subquery.", "list_aggregate list_sum"),
    ("Write array_distinct(x).", "list_distinct list_unique"),
    ("Write array_agg(x).", "array_concat_agg listagg_distinct group_array groupuniqarray"),
    ("Write array_join(x, ',').", "array_to_string list_to_string arraystringconcat"),
    (_JSON, "json_extract_path_text json_extract_path jsonb_extract_path jsonb_extract_path_text"),
    (_JSON, "jsonextract jsonextractstring jsonextractint json_unquote json_array_elements"),
    ("Write explode(x) or posexplode(x).", "unnest_array json_each json_table generate_subscripts"),
    ("Write percentile(x, 0.99) or approx_percentile(x, 0.99).", "approx_quantiles quantiles"),
    ("Write xxhash64(x), hash(x), md5(x) or sha2(x, 256).", "farm_fingerprint siphash64 cityhash64"),
    ("Write xxhash64(x), hash(x), md5(x) or sha2(x, 256).", "sha256 sha512 sha224 sha384 md5_hex hashbytes"),
    ("Write x IS NOT NULL AND NOT isnan(x) AND abs(x) < double('Infinity').", "isfinite is_finite"),
    ("Write abs(x) = double('Infinity').", "isinf isinfinite is_infinite is_inf"),
    ("Write isnan(x).", "is_nan"),
    ("Write regexp_instr(x, pattern), or locate(part, x).", "patindex regexp_position match_position"),
    ("Write regexp_extract(x, pattern, 1).", "regexp_match regexp_extract_groups"),
    ("Write unhex(x), or X'0aff'.", "from_hex fromhex"),
    ("Write format_string('%s %d', x, y).", "format sprintf formatstring"),
    ("Write overlay(x PLACING y FROM 1 FOR 2).", "insert stuff"),
    ("Write repeat(x, n).", "replicate"),
    ("Write lpad(x, 5, '0').", "zfill leftpad rightpad"),
    ("Write initcap(x).", "proper title"),
    ("Write startswith(x, y) or endswith(x, y).", "starts_with ends_with prefix suffix"),
    ("Write CASE WHEN a THEN b WHEN c THEN d ELSE e END.", "multiif"),
    ("Write greatest(x, y, ...) or least(x, y, ...).", "maxof minof max_of min_of"),
    (_ENGINE, "pg_sleep pg_typeof current_setting pg_size_pretty sleep benchmark last_insert_id row_count"),
    ("Write typeof(x).", "typename totypename"),
    (_CHANCE, "gen_random_uuid newid generate_uuid uuid_string generateuuidv4 rand64"),
    ("SELECT takes names, without patterns: name the columns.", "columns apply"),
    ("Write sequence(1, 9, 2), and explode it for a row of each number.", "generate_series"),
    ("Write array_append(x, y).", "list_append"),
    ("Write concat(x, y).", "array_cat"),
    ("Write array_repeat(x, n).", "list_repeat array_fill"),
    ("Write arrays_zip(x, y).", "list_zip"),
    ("Write array_sort(x), or sort_array(x): it puts NULL first.", "list_sort"),
    ("Write x[i], which counts from 0; element_at(x, i) counts from 1.", "list_extract array_get"),
    (_STRUCT, "struct_pack row"),
    (_JSON, "json_tuple json_extract json_extract_string json_extract_scalar json_value json_query to_jsonb"),
    ("Name the fields: from_json(text, 'STRUCT<a: BIGINT>').", "schema_of_json schema_of_variant"),
    ("Name the fields: from_json(text, 'STRUCT<a: BIGINT>').", "schema_of_variant_agg"),
    (_VARIANT, "parse_json try_parse_json variant_get try_variant_get"),
    (_VARIANT, "is_variant_null is_valid_variant to_variant_object"),
    (_VARIANT, "variant_explode variant_explode_outer variant_insert"),
    (_VARIANT, "variant_set variant_delete variant_array_append"),
    (_VARIANT, "try_variant_insert try_variant_set try_variant_array_append variant_strip_nulls"),
    (_CSV, "from_csv to_csv schema_of_csv read_csv"),
    (_XML, "from_xml to_xml schema_of_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long"),
    (_XML, "xpath_number xpath_short xpath_string"),
    ("Write SELECT ... UNION ALL SELECT ..., or explode(array(x, y)).", "stack"),
    (_INTERVAL, "make_interval make_ym_interval try_make_interval"),
    (_INTERVAL, "to_seconds to_minutes to_hours to_days"),
    (_TIME, "make_time to_time try_to_time time time_diff time_trunc time_from_micros time_from_millis"),
    (_TIME, "time_from_seconds time_to_micros time_to_millis time_to_seconds"),
    (_ZONE, "to_timestamp_ntz make_timestamp_ntz"),
    (_ZONE, "try_make_timestamp_ntz timestamp_ntz current_timezone"),
    ("A query reads records and makes none: FROM takes the name of a stream.", "range"),
    (_NO_TIME, "try_to_date strptime str_to_date parse_datetime parse_timestamp date_parse"),
    ("Times have microseconds: write unix_micros(ts) or timestamp_micros(n).", "unix_nanos timestamp_nanos"),
    ("Times have microseconds: write unix_micros(ts) or timestamp_micros(n).", "epoch_ns"),
    ("Write unix_seconds(ts), unix_millis(ts) or unix_micros(ts).", "epoch epoch_ms epoch_us to_epoch"),
    (_DIFF, "timestamp_diff timediff age"),
    (_ADD, "timestamp_add date_sub_interval adddate subdate"),
    ("Write weekofyear(ts).", "week week_of_year isoweek"),
    ("Write date_format(ts, 'yyyy-MM-dd HH:mm:ss').", "strftime format_timestamp format_datetime to_iso8601"),
    ("Write date_trunc('MINUTE', ts).", "tostartofminute tostartofhour tostartofday tostartofinterval"),
    (_BINARY, "to_base32 from_base32"),
    ("Write regexp_replace(x, '[A-Z]', 'X').", "mask"),
    ("Write split(x, ' ').", "sentences string_split str_split"),
    ("Write split(x, ' ').", "string_to_array regexp_split_to_array splitbychar"),
    ("Write levenshtein(x, y).", "jaro_winkler_similarity editdist3 edit_distance damerau_levenshtein"),
    ("Write locate(part, x) or instr(x, part).", "strpos charindex indexof"),
    ("Write regexp_like(x, pattern).", "regexp_matches regexp_contains match"),
    ("Write hex(x).", "to_hex"),
    ("Write if(condition, a, b).", "iif"),
    ("Write -x.", "negate"),
    ("Write ~x.", "bitwise_not bitnot"),
    ("Write ln(x + sqrt(x * x - 1)).", "acosh"),
    ("Write ln(x + sqrt(x * x + 1)).", "asinh"),
    ("Write 0.5 * ln((1 + x) / (1 - x)).", "atanh"),
    ("Write exp(sum(ln(x))) for numbers above 0.", "product"),
    (_MOMENTS, "skewness kurtosis"),
    (_LINE, "regr_slope regr_count regr_avgx regr_avgy regr_intercept regr_r2 regr_sxx regr_sxy regr_syy"),
    ("Write count(*) with GROUP BY width_bucket(x, low, high, n).", "histogram_numeric histogram"),
    ("Write grouping(a) * 2 + grouping(b).", "grouping__id"),
    ("Write string_agg(x, ',').", "group_concat string_concat"),
    ("Write array_agg(x).", "list grouparray"),
    ("Write max_by(x, y) or min_by(x, y).", "arg_max argmax arg_min argmin"),
    ("Write percentile(x, 0.99) or approx_percentile(x, 0.99).", "quantile quantile_cont"),
    ("Write percentile(x, 0.99) or approx_percentile(x, 0.99).", "quantile_disc approx_quantile"),
    ("Write count(DISTINCT x).", "uniq uniqexact count_distinct"),
    (_DISTINCT, "bitmap_and_agg bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count"),
    (_DISTINCT, "bitmap_or_agg theta_intersection_agg"),
    (_TOP, "count_min_sketch approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate"),
    (_FAILS, "assert_true raise_error error"),
    (_JAVA, "java_method reflect try_reflect udf udaf udtf call_udf call_function"),
    (_SECRET, "aes_encrypt aes_decrypt try_aes_decrypt hmac"),
    (_SESSION, "current_user user session_user current_database current_schema current_catalog version"),
    (_FILE, "input_file_name input_file_block_length input_file_block_start spark_partition_id"),
    (_COLLATE, "collate collation collations"),
    (_PLACE, "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid st_astext st_point st_distance"),
    (_VECTOR, "vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm"),
    (_VECTOR, "vector_normalize vector_sum"),
    ("Write CAST(x AS BIGINT), or CAST(x AS DOUBLE) for a number with a fraction.", "toint64 tofloat64"),
    ("Write CAST(x AS BIGINT), or CAST(x AS DOUBLE) for a number with a fraction.", "to_int to_double"),
    ("Write CAST(x AS DOUBLE), or double(x).", "real"),
    (_HOP, "hopping hop_window hopping_window slide sliding"),
    (_HOP, "sliding_window slidingwindow hoppingwindow cumulate"),
    (_TUMBLE, "tumbling tumble_window tumbling_window tumblingwindow"),
    (_TUMBLE, "time_bucket countwindow count_window"),
    ("Write SESSION(ts, INTERVAL '5' MINUTE).", "sessions sessionwindow session_windows"),
    ("Select window_start or window_end.", "tumble_start tumble_end hop_start hop_end window_time"),
)  # fmt: skip

_FAMILIES = {
    f"{family}_{part}_{kind}".replace("__", "_"): hint
    for hint, family, parts, kinds in (
        (_KLL, "kll_sketch", "agg get_quantile merge", "bigint float"),
        (_KLL, "kll_sketch", "get_n get_rank to_string", "bigint float double"),
        (_KLL, "kll_merge_agg", "", "bigint float"),
        (_DISTINCT, "tuple", "difference intersection union", "double integer theta_double theta_integer"),
        (_DISTINCT, "tuple", "intersection_agg union_agg", "double integer"),
        (_DISTINCT, "tuple_sketch", "agg estimate summary theta", "double integer"),
    )
    for part in parts.split() or [""]
    for kind in kinds.split()
}

FOREIGN_FUNCTIONS: dict[str, str] = _FAMILIES | {
    name: hint for hint, names in _GROUPS for name in names.split()
}
