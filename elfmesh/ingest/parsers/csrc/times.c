/* Event times: the shapes nearly every log uses, read in one go. All else is left to the slow path, which is
 * the query language's own reading.
 *
 *     2015-05-17   2015-05-17T10:05:03   2015-05-17 10:05:03.123456+02:00   17/May/2015:10:05:03 +0000
 *     seconds, milli-, micro- or nanoseconds since the epoch as numbers
 */
#include "scan.h"

#include <math.h>
#include <string.h>

enum { DATE_WIDTH = 10, CLOCK_WIDTH = 19, CLF_WIDTH = 26, CLF_CLOCK_WIDTH = 20, FRACTION_MAX = 9, ZONE_HOURS = 23 };
static const int64_t SECOND_US = 1000000, DAY_S = 86400;

/* Neighbours in a log mostly share their second, so the last one is kept: its text and its value. */
typedef struct {
    uint8_t text[CLF_CLOCK_WIDTH];
    int64_t seconds;
} Last;

static inline bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

/* The decimal number of `count` digits at p, or -1. */
static inline int64_t digits_at(const uint8_t *p, int count) {
    int64_t value = 0;
    for (int at = 0; at < count; at++) {
        if (!is_digit(p[at])) {
            return -1;
        }
        value = value * 10 + (p[at] - '0');
    }
    return value;
}

static bool is_date(int64_t year, int64_t month, int64_t day) {
    static const int8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 0 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= lengths[month - 1] + (leap && month == 2);
}

/* Days since 1970-01-01 of a valid date (Hinnant's algorithm). */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
    year += 400 - (month <= 2); /* 400 years more keep every quotient positive */
    int64_t era = year / 400, year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (era - 1) * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

/* hh:mm:ss at p as seconds of the day, or -1. */
static int64_t clock_at(const uint8_t *p) {
    int64_t hour = digits_at(p, 2), minute = digits_at(p + 3, 2), second = digits_at(p + 6, 2);
    bool sane = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
    return sane && p[2] == ':' && p[5] == ':' ? hour * 3600 + minute * 60 + second : -1;
}

/* +hh, +hhmm or +hh:mm filling [p, end), as seconds east of UTC. */
static bool zone_at(const uint8_t *p, const uint8_t *end, int64_t *east) {
    ptrdiff_t width = end - p;
    if ((width != 3 && width != 5 && width != 6) || (*p != '+' && *p != '-') || (width == 6 && p[3] != ':')) {
        return false;
    }
    int64_t hours = digits_at(p + 1, 2), minutes = width > 3 ? digits_at(end - 2, 2) : 0;
    if (hours < 0 || hours > ZONE_HOURS || minutes < 0 || minutes > 59) {
        return false;
    }
    *east = (hours * 60 + minutes) * (*p == '-' ? -60 : 60);
    return true;
}

/* Days of YYYY-MM-DD at p; false if it is none. */
static bool iso_days(const uint8_t *p, int64_t *days) {
    int64_t year = digits_at(p, 4), month = digits_at(p + 5, 2), day = digits_at(p + 8, 2);
    if (p[4] != '-' || p[7] != '-' || !is_date(year, month, day)) {
        return false;
    }
    *days = days_of(year, month, day);
    return true;
}

static bool iso_clock(const uint8_t *p, Last *last) {
    if (memcmp(p, last->text, CLOCK_WIDTH) == 0 && last->text[CLOCK_WIDTH] == 0) {
        return true;
    }
    int64_t days, second = clock_at(p + DATE_WIDTH + 1);
    if ((p[DATE_WIDTH] != 'T' && p[DATE_WIDTH] != ' ') || second < 0 || !iso_days(p, &days)) {
        return false;
    }
    memcpy(last->text, p, CLOCK_WIDTH);
    last->text[CLOCK_WIDTH] = 0;
    last->seconds = days * DAY_S + second;
    return true;
}

static bool read_iso(Bytes text, Last *last, int64_t *time) {
    const uint8_t *p = text.data, *end = p + text.size;
    int64_t micros = 0, east = 0, days;
    if (text.size == DATE_WIDTH) {
        bool good = iso_days(p, &days);
        *time = good ? days * DAY_S * SECOND_US : 0;
        return good;
    }
    if (text.size < CLOCK_WIDTH || !iso_clock(p, last)) {
        return false;
    }
    p += CLOCK_WIDTH;
    if (p < end && (*p == '.' || *p == ',')) {
        const uint8_t *digits = ++p;
        int64_t unit = SECOND_US / 10;
        for (; p < end && is_digit(*p); p++, unit /= 10) {
            micros += unit * (*p - '0');
        }
        if (p == digits || p - digits > FRACTION_MAX) {
            return false;
        }
    }
    if (p < end && !(*p == 'Z' && p + 1 == end) && !zone_at(p, end, &east)) {
        return false;
    }
    *time = (last->seconds - east) * SECOND_US + micros;
    return true;
}

/* 1..12 of three letters in any case, else 0. */
static int64_t month_at(const uint8_t *p) {
    static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";
    const char folded[3] = {(char)(p[0] | 32), (char)(p[1] | 32), (char)(p[2] | 32)};
    for (int64_t month = 0; month < 12; month++) {
        if (memcmp(names + 3 * month, folded, 3) == 0) {
            return month + 1;
        }
    }
    return 0;
}

static bool read_clf(Bytes text, Last *last, int64_t *time) {
    const uint8_t *p = text.data;
    int64_t east;
    if (!zone_at(p + CLF_CLOCK_WIDTH + 1, p + CLF_WIDTH, &east) || p[CLF_CLOCK_WIDTH] != ' ') {
        return false;
    }
    if (memcmp(p, last->text, CLF_CLOCK_WIDTH) != 0) {
        int64_t day = digits_at(p, 2), month = month_at(p + 3), year = digits_at(p + 7, 4);
        int64_t second = clock_at(p + 12);
        if (p[2] != '/' || p[6] != '/' || p[11] != ':' || second < 0 || !is_date(year, month, day)) {
            return false;
        }
        memcpy(last->text, p, CLF_CLOCK_WIDTH);
        last->seconds = days_of(year, month, day) * DAY_S + second;
    }
    *time = (last->seconds - east) * SECOND_US;
    return true;
}

static const double MILLIS_FROM = 1e11, MICROS_FROM = 1e14, NANOS_FROM = 1e17;

static int64_t time_of_int(int64_t value) {
    double size = fabs((double)value);
    if (size > NANOS_FROM) {
        return value / 1000 - (value % 1000 < 0);
    }
    return size > MICROS_FROM ? value : size > MILLIS_FROM ? value * 1000 : value * SECOND_US;
}

static bool time_of_float(uint64_t cell, int64_t *time) {
    double value, size;
    memcpy(&value, &cell, sizeof value);
    size = fabs(value);
    if (!(size < 9.2e18)) { /* and what is no number */
        return false;
    }
    double scale = size > NANOS_FROM ? 1e-3 : size > MICROS_FROM ? 1.0 : size > MILLIS_FROM ? 1e3 : 1e6;
    *time = (int64_t)rint(value * scale);
    return true;
}

size_t read_times(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int64_t *times,
                  uint8_t *outcome) {
    Last iso = {{0}, 0}, clf = {{0}, 0};
    iso.text[CLOCK_WIDTH] = 1; /* nothing kept yet */
    size_t open = 0;
    for (size_t at = 0; at < count; at++) {
        int64_t time = 0;
        bool read = false, later = kinds[at] == CELL_ESCAPED || kinds[at] == CELL_OTHER;
        if (kinds[at] == CELL_TEXT) {
            Bytes text = text_of_cell(texts, cells[at]);
            read = text.size == CLF_WIDTH && text.data[2] == '/' ? read_clf(text, &clf, &time)
                                                                 : read_iso(text, &iso, &time);
            later = !read;
        } else if (kinds[at] == CELL_INT) {
            time = time_of_int((int64_t)cells[at]);
            read = true;
        } else if (kinds[at] == CELL_FLOAT) {
            read = time_of_float(cells[at], &time);
        }
        times[at] = read ? time : 0;
        outcome[at] = read ? CELL_INT : later ? CELL_OTHER : CELL_NULL;
        open += later;
    }
    return open;
}
