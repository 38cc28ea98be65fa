# Fit M0 to M3 to the answers of a CSV file (see simulated.write_csv) and print the estimates as JSON.
#
#   Rscript fit.R ANSWERS.csv glmmTMB|glmer [M0 M1 M2 M3]
#
# M3 is written with the effect of each method within each LLM; its likelihood is that of method x LLM.

arguments <- commandArgs(trailingOnly = TRUE)
engine <- arguments[2]
wanted <- if (length(arguments) > 2) arguments[-(1:2)] else c("M0", "M1", "M2", "M3")

answers <- read.csv(arguments[1], stringsAsFactors = FALSE)
# Levels in the order of their first row: the reference is the first.
for (name in c("item", "LLM", "method")) answers[[name]] <- factor(answers[[name]], levels = unique(answers[[name]]))

formulas <- list(
  M0 = correct ~ difficulty + LLM + (1 | item) + (1 | item:LLM),
  M1 = correct ~ difficulty + LLM + method + (1 | item) + (1 | item:LLM),
  M2 = correct ~ difficulty + LLM + method + method:difficulty + (1 | item) + (1 | item:LLM),
  M3 = correct ~ difficulty + LLM + LLM:method + (1 | item) + (1 | item:LLM)
)

fit <- function(formula) {
  if (engine == "glmmTMB") {
    return(glmmTMB::glmmTMB(formula, data = answers, family = binomial()))
  }
  control <- lme4::glmerControl(optimizer = "bobyqa", optCtrl = list(maxfun = 2e5))
  lme4::glmer(formula, data = answers, family = binomial(), control = control)
}

described <- function(formula) {
  seconds <- system.time(model <- fit(formula))[["elapsed"]]
  table <- coef(summary(model))
  varying <- lme4::VarCorr(model)
  if (engine == "glmmTMB") {
    table <- table$cond
    varying <- varying$cond
  }
  list(
    log_lik = as.numeric(logLik(model)),
    n_parameters = attr(logLik(model), "df"),
    coefficients = as.list(setNames(table[, "Estimate"], rownames(table))),
    se = as.list(setNames(table[, "Std. Error"], rownames(table))),
    variances = lapply(varying, function(matrix) matrix[1, 1]),
    seconds = seconds
  )
}

models <- lapply(formulas[wanted], described)
result <- list(
  engine = engine,
  version = as.character(packageVersion(if (engine == "glmer") "lme4" else engine)),
  R = as.character(getRversion()),
  models = models
)
cat(jsonlite::toJSON(result, auto_unbox = TRUE, digits = 10, pretty = TRUE), "\n")
